/** For tests of services that embed Leasehold: an embedded store, a clock that is stepped, faults, and whole simulated fleets. */
export { seededRandom } from '../base/random.ts';
export {
  virtualClock,
  type VirtualClock,
  type VirtualClockOptions,
} from '../base/virtual-clock.ts';
export {
  type CallKind,
  type FaultyStore,
  faultyStore,
  type FaultyStoreOptions,
  type LoggedCall,
  looksAt,
  type LossOptions,
  type Matcher,
  type PartitionOptions,
  type Rule,
  type RuleBuilder,
  type RuleOptions,
  type Span,
  type StoreCall,
  writesTo,
} from '../store/faults.ts';
export { memoryStore, type MemoryStore } from '../store/memory.ts';
export {
  type FaultKind,
  simulate,
  type SimulationOptions,
  type SimulationReport,
  type SimulationViolation,
} from './simulate.ts';
export type { HandlerContext, SimulatedHandler } from './simulation/program.ts';
export { workerClock, type WorkerClock, type WorkerClockOptions } from './worker-clock.ts';
