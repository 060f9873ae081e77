/** What a worker is made from. */
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../base/logger.ts';
import type { Random } from '../../base/random.ts';
import type { Store } from '../../store/port.ts';
import type { Planner } from './api.ts';
import type { WorkerConfig } from './config.ts';
import type { Transition } from './transition.ts';

/** What a worker is made from. */
export interface CoordinatorOptions {
  /** Names the work; all workers with the same job share it. */
  readonly job: string;
  /** Where the keys of all jobs lie; `leasehold` when absent. */
  readonly prefix?: string;
  readonly store: Store;
  /** Stable name of this process, unique among live ones; random when absent or undefined. */
  readonly instanceId?: string | undefined;
  readonly planner: Planner;
  /** Silent when absent. */
  readonly logger?: Logger;
  readonly config?: Partial<WorkerConfig>;
  /** Facts of the host that operators see beside the instance; at most a line. */
  readonly host?: string;
  /** Told of every transition of every chart. What it throws is logged once and changes nothing. */
  readonly inspect?: (transition: Transition) => void;
  readonly clock?: Clock;
  readonly random?: Random;
}
