/**
 * One real worker `a`, whole, over the memory store: its clock, its connection and everybody else are the test's to move.
 * Everything its charts do is written down.
 */
import type { AnyEventObject } from 'xstate';
import type { InstanceId, SplitId } from '../../../src/base/ids.ts';
import type { LogLine } from '../../../src/base/logger.ts';
import { seededRandom } from '../../../src/base/random.ts';
import { virtualClock } from '../../../src/base/virtual-clock.ts';
import type { CoordinationEvent, Planner } from '../../../src/coordinator/api/api.ts';
import type { Transition } from '../../../src/coordinator/api/transition.ts';
import type { WorkerConfig } from '../../../src/coordinator/api/config.ts';
import { createCoordinator, type SplitCoordinator } from '../../../src/coordinator/coordinator.ts';
import { jobKeys } from '../../../src/records/keys.ts';
import {
  leaseCodec,
  type LeaseRecord,
  splitCodec,
  type SplitRecord,
} from '../../../src/records/records.ts';
import { faultyStore } from '../../../src/store/faults.ts';
import { memoryStore } from '../../../src/store/memory.ts';
import type { Entry } from '../../../src/store/port.ts';
import { ChartProbe, listening, type Replace } from './chart-probe.ts';
import { Hand } from './hand.ts';
import { HeldStore } from './held-store.ts';

export const ME = 'a' as InstanceId;
export const SPLIT = 's1' as SplitId;
export const LEASE_MS = 9_000;
export const OPERATION_MS = 2_000;
export const DRAIN_MS = 30_000;
export const ATTEMPTS_MAX = 3;

const CONFIG: Partial<WorkerConfig> = {
  leaseDurationMs: LEASE_MS,
  opTimeoutMs: OPERATION_MS,
  drainDeadlineMs: DRAIN_MS,
  maxAttempts: ATTEMPTS_MAX,
  // Nothing is read again by the way: each path says what is heard and when.
  reconcileIntervalMs: 10_000_000,
  replanIntervalMs: 60_000,
};

export interface StageOptions {
  readonly config?: Partial<WorkerConfig>;
  readonly planner?: Planner;
  readonly replace?: Replace | undefined;
}

const noPlanner: Planner = {
  fingerprint: () => 'plan:v1',
  plan: () => ({ splits: [], finality: 'open' }),
};

export class Stage {
  readonly clock = virtualClock();
  readonly store = memoryStore({ clock: this.clock, keepAudit: true });
  readonly client = faultyStore(this.store, { clock: this.clock, random: seededRandom(1) });
  readonly held = new HeldStore(this.client);
  readonly keys = jobKeys('test', 'job');
  readonly hand = new Hand(this.store, this.keys);
  readonly probe: ChartProbe;
  readonly events: CoordinationEvent[] = [];
  readonly feed: Transition[] = [];
  /** Names of the lines it logged. */
  readonly lines: string[] = [];
  readonly worker: SplitCoordinator;

  readonly #line: LogLine = ({ event }) => {
    this.lines.push(String(event));
  };

  constructor({ config, planner = noPlanner, replace }: StageOptions = {}) {
    this.probe = new ChartProbe(replace);
    this.probe.nowMs = () => this.clock.nowMs();
    this.worker = listening(this.probe, () =>
      createCoordinator({
        job: 'job',
        prefix: 'test',
        store: this.held,
        instanceId: ME,
        planner,
        config: { ...CONFIG, ...config },
        clock: this.clock,
        random: seededRandom(2),
        inspect: (transition) => this.feed.push(transition),
        logger: { debug: this.#line, info: this.#line, warn: this.#line, error: this.#line },
      }),
    );
    this.worker.listen((event) => this.events.push(event));
    this.worker.verdict().catch(() => undefined);
  }

  start(): void {
    this.worker.start();
  }

  /** Moves time on, from timer to timer, until `condition` holds; false when it does not within `withinMs`. */
  async until(condition: () => boolean, withinMs = 20_000): Promise<boolean> {
    const holds = await this.clock.until(condition, withinMs);
    await this.clock.settle();
    return holds;
  }

  /** The entry at `key` now. */
  entry(key: string): Entry | undefined {
    return this.store.dump(key).find((one) => one.key === key);
  }

  split(id: SplitId = SPLIT): SplitRecord | null {
    const decoded = splitCodec.decode(this.entry(this.keys.split(id))?.value ?? '');
    return decoded.kind === 'record' ? decoded.record : null;
  }

  lease(id: SplitId = SPLIT): LeaseRecord | null {
    const decoded = leaseCodec.decode(this.entry(this.keys.lease(id))?.value ?? '');
    return decoded.kind === 'record' ? decoded.record : null;
  }

  /** Hands a chart an event by itself, past everything that would send it. */
  inject(chart: Parameters<ChartProbe['find']>[0], id: string, event: AnyEventObject): void {
    this.probe.find(chart, id)!.running.send(event);
  }
}
