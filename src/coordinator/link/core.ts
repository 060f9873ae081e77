/** What every part of one worker shares. */
import type { Timer } from '../../base/clock.ts';
import type { LeaseholdError } from '../../base/errors.ts';
import type { InstanceId, Nonce } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { Stamp } from '../../records/codec.ts';
import type { JobKeys } from '../../records/keys.ts';
import type { Planner } from '../api/api.ts';
import type { WorkerConfig } from '../api/config.ts';
import type { ChartHost } from '../loop/chart-host.ts';
import type { EventSink } from '../loop/event-sink.ts';
import type { Mailbox } from '../loop/mailbox.ts';
import type { TimerSet } from '../loop/timers.ts';
import type { WorkerLog } from '../loop/worker-log.ts';
import type { Batcher } from './batcher.ts';
import type { FleetView } from './fleet-view.ts';
import type { LinkHealth } from './link-health.ts';
import type { SessionKeeper } from './session-keeper.ts';
import type { StoreGate } from './store-gate.ts';
import type { Warnings } from './warnings.ts';

/** Who this worker is, and for which job. */
export interface Identity {
  readonly job: string;
  readonly keys: JobKeys;
  readonly me: InstanceId;
  readonly nonce: Nonce;
  /** Facts of the host for operators. */
  readonly hostFacts: string;
}

/** How things happen in one worker: one at a time, on its clock. */
export interface Loop {
  readonly clock: TimerSet;
  readonly random: Random;
  readonly log: WorkerLog;
  readonly mailbox: Mailbox;
  readonly charts: ChartHost;
  readonly events: EventSink;
  /** Runs `act` as a message after `ms` milliseconds; never once the worker has left. */
  after(ms: number, act: () => void): Timer;
  /** Ends the worker with an error that no retry heals; the first one counts. */
  fatal(error: LeaseholdError): void;
  /** A bug of this library: said, and the process ends by it. */
  readonly bug: (error: unknown) => void;
}

/** The way to the store, and what is believed of it. */
export interface Link {
  readonly gate: StoreGate;
  /** The same for what this worker does as leader. */
  readonly leaderGate: StoreGate;
  readonly health: LinkHealth;
  readonly batcher: Batcher;
  readonly view: FleetView;
  readonly warnings: Warnings;
  /** The worker's own session: presence and leases hang on it. */
  readonly session: SessionKeeper;
  /** A fresh stamp for the next write. */
  stamp(): Stamp;
}

export interface Core extends Identity, Loop, Link {
  readonly config: WorkerConfig;
  readonly planner: Planner;
  /** What the planner gave as its fingerprint when the worker was built. */
  readonly fingerprint: string;
  /** True once this worker is on its way out: it takes nothing new (R16). */
  isLeaving(): boolean;
}
