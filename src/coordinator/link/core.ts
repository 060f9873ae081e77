/** What every part of one worker shares. */
import type { TimerSet } from '../loop/timers.ts';
import type { LeaseholdError } from '../../base/errors.ts';
import type { InstanceId, Nonce } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { Stamp } from '../../records/codec.ts';
import type { JobKeys } from '../../records/keys.ts';
import type { Planner } from '../api/api.ts';
import type { Batcher } from './batcher.ts';
import type { ChartHost } from '../loop/chart-host.ts';
import type { WorkerConfig } from '../api/config.ts';
import type { EventSink } from '../loop/event-sink.ts';
import type { WorkerLog } from '../loop/worker-log.ts';
import type { FleetView } from './fleet-view.ts';
import type { Mailbox } from '../loop/mailbox.ts';
import type { SessionKeeper } from './session-keeper.ts';
import type { StoreGate } from './store-gate.ts';

export interface Core {
  readonly job: string;
  readonly config: WorkerConfig;
  readonly keys: JobKeys;
  readonly me: InstanceId;
  readonly nonce: Nonce;
  /** Facts of the host for operators. */
  readonly hostFacts: string;
  readonly planner: Planner;
  /** What the planner gave as its fingerprint when the worker was built. */
  readonly fingerprint: string;
  readonly clock: TimerSet;
  readonly random: Random;
  readonly log: WorkerLog;
  readonly mailbox: Mailbox;
  readonly gate: StoreGate;
  readonly charts: ChartHost;
  readonly batcher: Batcher;
  readonly view: FleetView;
  readonly events: EventSink;
  /** The worker's own session: presence and leases hang on it. */
  readonly session: SessionKeeper;
  /** A fresh stamp for the next write. */
  stamp(): Stamp;
  /** Ends the worker with an error that no retry heals; the first one counts. */
  fatal(error: LeaseholdError): void;
}

/** The version that presences show. */
export const LEASEHOLD_VERSION = '0.1.0';
