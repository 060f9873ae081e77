/** Leasehold: divides one source's work among the instances of a Node service, safely. */
export { type ErrorCode, type ErrorKind, isLeaseholdError, LeaseholdError } from './base/errors.ts';
export type { Clock, Timer } from './base/clock.ts';
export type { Logger, LogLine } from './base/logger.ts';
export type { Random } from './base/random.ts';
export type {
  Bytes,
  CoordinationEvent,
  InformationalEvent,
  LossReason,
  OwnershipEvent,
  PlanAnswer,
  PlannedSplit,
  Planner,
  PlanRequest,
  Progress,
  ProgressInput,
  RevokeReason,
  Split,
  StopReport,
  Verdict,
} from './coordinator/api/api.ts';
export type { Transition } from './coordinator/api/transition.ts';
export type { WorkerConfig } from './coordinator/api/config.ts';
export type { CoordinatorOptions } from './coordinator/api/options.ts';
export { createCoordinator, type SplitCoordinator } from './coordinator/coordinator.ts';
export type { EventStream } from './coordinator/api/events.ts';
export { fatalPlannerError } from './coordinator/api/planner-error.ts';
export type { Status, TenancyStatus } from './coordinator/status.ts';
export type { Draining, Grant } from './driver/grant.ts';
export { createWorker, type Handler, type Worker, type WorkerOptions } from './driver/worker.ts';
export { createOperator, type Operator, type OperatorOptions } from './operator/operator.ts';
export { memoryStore, type MemoryStore } from './store/memory.ts';
export type { Store } from './store/port.ts';
