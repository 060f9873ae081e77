/**
 * A real etcd for one fleet, on a clock that runs faster than real time: a lease of nine seconds is one of six in etcd. What the store holds is read from the recorded history; every answer that a worker gets
 * is recorded before it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import type { Revision } from '../../../src/base/decimals.ts';
import { etcdStore, type EtcdStore } from '../../../src/store/etcd/index.ts';
import type { World, WorldClock } from '../../support/world.ts';
import { EtcdView } from './view.ts';
import { type HistoryRecorder, startRecorder } from './history/history.ts';
import { FastStore } from './fast-store.ts';
import { type EtcdServer, startEtcd } from './server.ts';

/** Milliseconds of the fleet in one of real time. */
const SPEED = 1.5;
/** What a busy machine and etcd, which ends leases up to a second late, may need, in real time. */
const SLACK_MS = 2_000;
/** The shortest wait: whatever is sent is answered within it, when nothing goes wrong. In real time. */
const STEP_MS = 30;
/** In real time; far longer than it takes. */
const WARM_MS = 20_000;
/** Seeds of one fleet. */
const SEEDS = 1_000;
/** In real time; longer than a stop may take. */
const END_MS = 10_000;

/** A server, and the record of all that was ever in it. */
interface Place {
  readonly server: EtcdServer;
  readonly recorder: HistoryRecorder;
}

let shared: Promise<Place> | undefined;
let worlds = 0;

/** A world for one fleet: keys of its own in the server of this process, or a server of its own. */
export async function startEtcdWorld(isAlone: boolean): Promise<World> {
  worlds += 1;
  const number = worlds;
  shared ??= open();
  return new EtcdWorld(isAlone ? await open() : await shared, number);
}

async function open(): Promise<Place> {
  const server = await startEtcd();
  await warmUp(server);
  return { server, recorder: startRecorder(server.gateway) };
}

/** The first use of the client loads much code: no fleet shall wait for that while its time passes. */
async function warmUp({ endpoint }: EtcdServer): Promise<void> {
  const client = etcdStore({ endpoints: [endpoint] });
  const stop = client
    .watch({ prefix: 'warm' }, '2' as Revision)
    .subscribe({ next: () => undefined });
  await client.read({ prefix: 'warm' }, {}, { timeoutMs: WARM_MS });
  stop.unsubscribe();
  await client.close();
}

class EtcdWorld implements World {
  readonly clock: FastClock;
  readonly store: EtcdView;
  readonly prefix: string;
  readonly seed: number;
  readonly slackMs = SLACK_MS * SPEED;
  readonly #place: Place;
  readonly #clients: EtcdStore[] = [];

  constructor(place: Place, number: number) {
    const prefix = `t${number}`;
    this.#place = place;
    this.prefix = prefix;
    this.seed = number * SEEDS;
    this.clock = new FastClock(() => this.store.settle());
    const connect = () => this.connect();
    this.store = new EtcdView({ ...place, prefix, clock: this.clock, connect });
  }

  connect(): FastStore {
    const client = etcdStore({ endpoints: [this.#place.server.endpoint] });
    this.#clients.push(client);
    return new FastStore(client, SPEED, (answered) => this.store.knows(answered));
  }

  async step(ms: number): Promise<void> {
    await this.clock.pass(ms);
    await this.store.refresh();
  }

  async end(stops: Promise<unknown>): Promise<void> {
    const { recorder } = this.#place;
    await Promise.race([stops, sleep(END_MS, undefined, { ref: false })]);
    this.clock.stop();
    await Promise.all(this.#clients.map((client) => client.close()));
    await recorder.settled();
    const gaps = recorder.gaps();
    if (gaps.length > 0) throw new Error(`not everything was recorded: ${gaps.join('; ')}`);
  }
}

/** Real time, only faster. */
class FastClock implements WorldClock {
  readonly #real: Clock = systemClock();
  readonly #startMs = this.#real.nowMs();
  readonly #settle: () => Promise<void>;
  readonly #pending = new Set<object>();
  #isStopped = false;

  constructor(settle: () => Promise<void>) {
    this.#settle = settle;
  }

  nowMs(): number {
    return this.ofRealMs(this.#real.nowMs());
  }

  /** The time here at a real one. */
  ofRealMs(realMs: number): number {
    return (realMs - this.#startMs) * SPEED;
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
      Math.ceil(delayMs / SPEED),
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
    await sleep(Math.max(STEP_MS, ms / SPEED));
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
