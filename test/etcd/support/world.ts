/**
 * A real etcd for one fleet. What the store holds is read from the recorded history. A world of scenarios has a clock that
 * runs faster than real time, so that a lease of nine seconds is one of six in etcd, and every answer that a worker gets is
 * recorded before it. A world of jobs runs in real time, over whatever servers there are, and nothing waits for the record.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Entry } from '../../../src/store/port.ts';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import type { Revision } from '../../../src/base/decimals.ts';
import { etcdStore, type EtcdStore } from '../../../src/store/etcd/index.ts';
import type { Connection, World, WorldClock } from '../../support/world.ts';
import { patience, patiently } from '../../support/patience.js';
import { EtcdView, type Place } from './view.ts';
import { startRecorder } from './history/history.ts';
import { FastStore } from './fast-store.ts';
import { type EtcdServer, startEtcd } from './server.ts';

/** Milliseconds of a scenario in one of real time, on a machine that has time for it. */
const SPEED = 1.5;
/** What etcd, which ends leases up to a second late, and all that runs beside may need, in milliseconds of the scenario. */
const SLACK_MS = 3_000;
/** The shortest wait: whatever is sent is answered within it, when nothing goes wrong. In real time. */
const STEP_MS = 30;
/** In real time; far longer than it takes. */
const WARM_MS = 20_000;
/** Seeds of one fleet. */
const SEEDS = 1_000;
/** In real time; longer than a stop may take. */
const END_MS = 10_000;

let shared: Promise<Place> | undefined;
let worlds = 0;

/** A world for one scenario: keys of its own in the server of this process, or a server of its own. */
export async function startEtcdWorld(isAlone: boolean): Promise<World> {
  worlds += 1;
  const number = worlds;
  shared ??= open();
  return new ScenarioWorld(isAlone ? await open() : await shared, number);
}

async function open(): Promise<Place> {
  const server = await startEtcd();
  await warmUp(server);
  return {
    endpoints: [server.endpoint],
    gateways: [server.gateway],
    recorder: startRecorder(server.gateway),
    restartEmpty: () => server.restartEmpty(),
  };
}

/** The first use of the client loads much code: no fleet shall wait for that while its time passes. */
async function warmUp({ endpoint }: EtcdServer): Promise<void> {
  const client = etcdStore({ endpoints: [endpoint] });
  const stop = client
    .watch({ prefix: 'warm' }, '2' as Revision)
    .subscribe({ next: () => undefined });
  await client.read({ prefix: 'warm' }, {}, { timeoutMs: patiently(WARM_MS) });
  stop.unsubscribe();
  await client.close();
}

/** What both kinds have: clients of the servers, and a look at what they hold. */
abstract class EtcdWorld implements World<EtcdView> {
  abstract readonly slackMs: number;
  readonly clock: ScaledClock;
  readonly store: EtcdView;
  readonly prefix: string;
  readonly seed: number;
  readonly place: Place;
  readonly #clients: EtcdStore[] = [];

  constructor(place: Place, prefix: string, number: number, speed: number) {
    this.place = place;
    this.prefix = prefix;
    this.seed = number * SEEDS;
    this.clock = new ScaledClock(speed, () => this.settle());
    this.store = new EtcdView({ place, prefix, clock: this.clock, connect: () => this.connect() });
  }

  abstract connect(how?: Connection): FastStore | EtcdStore;
  abstract end(stops: Promise<unknown>): Promise<void>;
  protected abstract settle(): Promise<void>;

  entry(key: string): Entry | undefined {
    return this.store.entry(key);
  }

  async step(ms: number): Promise<void> {
    await this.clock.pass(ms);
    await this.store.refresh();
  }

  protected client(how: Connection = {}): EtcdStore {
    const client = etcdStore({ endpoints: this.place.endpoints, ...how });
    this.#clients.push(client);
    return client;
  }

  protected async closeClients(): Promise<void> {
    this.clock.stop();
    await Promise.all(this.#clients.map((client) => client.close()));
  }
}

class ScenarioWorld extends EtcdWorld {
  readonly slackMs = SLACK_MS;

  constructor(place: Place, number: number) {
    // A busy machine gets more time for the same; in halves, for etcd counts leases in whole seconds.
    super(place, `t${number}`, number, SPEED / (Math.ceil(2 * patience()) / 2));
  }

  connect(how?: Connection): FastStore {
    return new FastStore(this.client(how), this.clock.speed, (answered) =>
      this.store.knows(answered),
    );
  }

  async end(stops: Promise<unknown>): Promise<void> {
    const { recorder } = this.place;
    await Promise.race([stops, sleep(patiently(END_MS), undefined, { ref: false })]);
    await this.closeClients();
    await recorder.settled();
    const gaps = recorder.gaps();
    if (gaps.length > 0) throw new Error(`not everything was recorded: ${gaps.join('; ')}`);
  }

  protected settle(): Promise<void> {
    return this.store.settle();
  }
}

/** A world of real time. */
export class JobWorld extends EtcdWorld {
  readonly slackMs = 0;

  constructor(place: Place) {
    worlds += 1;
    super(place, 'test', worlds, 1);
  }

  connect(how?: Connection): EtcdStore {
    return this.client(how);
  }

  async end(stops: Promise<unknown>): Promise<void> {
    await stops;
    await this.closeClients();
    await this.place.recorder.stop();
  }

  /** Servers may be away: nothing is waited for. */
  protected settle(): Promise<void> {
    return Promise.resolve();
  }
}

/** Real time at another speed. */
class ScaledClock implements WorldClock {
  readonly speed: number;
  readonly #real: Clock = systemClock();
  readonly #startMs = this.#real.nowMs();
  readonly #settle: () => Promise<void>;
  readonly #pending = new Set<object>();
  #isStopped = false;

  constructor(speed: number, settle: () => Promise<void>) {
    this.speed = speed;
    this.#settle = settle;
  }

  nowMs(): number {
    return this.ofRealMs(this.#real.nowMs());
  }

  /** The time here at a real one. */
  ofRealMs(realMs: number): number {
    return (realMs - this.#startMs) * this.speed;
  }

  wallMs(): number {
    return this.#real.wallMs();
  }

  setTimeout(callback: () => void, delayMs: number): object {
    if (this.#isStopped) return {};
    const timer = this.#real.setTimeout(
      () => {
        this.#pending.delete(timer);
        callback();
      },
      Math.ceil(delayMs / this.speed),
    );
    this.#pending.add(timer);
    return timer;
  }

  clearTimeout(timer: object): void {
    this.#pending.delete(timer);
    this.#real.clearTimeout(timer);
  }

  async advance(deltaMs: number): Promise<void> {
    await this.pass(deltaMs);
    await this.#settle();
  }

  async pass(ms: number): Promise<void> {
    await sleep(Math.max(patiently(STEP_MS), ms / this.speed));
  }

  /** Forgets every timer: nothing of the fleet runs on. */
  stop(): void {
    for (const timer of this.#pending) this.#real.clearTimeout(timer);
    this.#pending.clear();
    this.#isStopped = true;
  }

  async settle(): Promise<void> {
    await this.advance(0);
  }

  get pendingTimers(): number {
    return this.#pending.size;
  }
}
