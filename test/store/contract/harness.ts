/** What the contract needs of a store, and what its tests share. */
import type { Revision } from '../../../src/base/decimals.ts';
import type { SessionId } from '../../../src/base/ids.ts';
import type { Store } from '../../../src/store/port.ts';

/** A store to test. */
export interface StoreHarness {
  readonly store: Store;
  /** Another client of the same store; may be the same object. */
  readonly other: Store;
  /** Where this test may write; ends with `/`. */
  readonly prefix: string;
  /** A TTL the store grants as asked, in milliseconds. */
  readonly ttlMs: number;
  /** How much later than its TTL a session may expire, in milliseconds. */
  readonly expiryLagMsMax: number;
  /** Lets time pass. */
  advance(durationMs: number): Promise<void>;
  /** Compacts history: what was overwritten before `revision` is gone. */
  compact(revision: Revision): Promise<void>;
  dispose(): Promise<void>;
}

/** What the tests of one store share. */
export interface Contract {
  /** The harness of the test that runs. */
  readonly harness: () => StoreHarness;
  /** A full key of this test. */
  readonly key: (name: string) => string;
  /** Opens sessions with names of this test; they are closed after it. */
  readonly open: (...names: readonly string[]) => Promise<readonly SessionId[]>;
  /** Lets a little time pass, again and again, until `condition` is true; fails after 5 s. */
  readonly until: (condition: () => boolean) => Promise<void>;
}
