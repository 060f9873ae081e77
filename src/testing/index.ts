/** For tests of services that embed Leasehold: an embedded store, a clock that is stepped, and faults. */
export { seededRandom } from '../base/random.ts';
export { virtualClock, type VirtualClock } from '../base/virtual-clock.ts';
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
export { workerClock, type WorkerClock } from './worker-clock.ts';
