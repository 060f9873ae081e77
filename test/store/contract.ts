/**
 * What every store must do, as tests: the memory store, the etcd store and every client of theirs run them.
 *
 * They use the port only, and a harness for what is outside of it: time, compaction and a second client. Each test gets a
 * prefix of its own, and nobody else writes to the store meanwhile.
 */
import { afterEach, beforeEach, describe } from '@jest/globals';
import type { SessionId } from '../../src/base/ids.ts';
import type { Contract, StoreHarness } from './contract/harness.ts';
import { testReads } from './contract/reads.ts';
import { testSessions } from './contract/sessions.ts';
import { testTransactions } from './contract/transactions.ts';
import { testWatches } from './contract/watches.ts';
import { CALL, sessionNamed } from './support.ts';

/** Runs the contract against one store. `makeStore` is called once per test. */
export function describeStoreContract(name: string, makeStore: () => Promise<StoreHarness>): void {
  describe(name, () => {
    let harness: StoreHarness;
    beforeEach(async () => {
      harness = await makeStore();
    });
    const opened = new Set<SessionId>();
    afterEach(async () => {
      // A session left over would expire in a later test and raise its revisions.
      for (const id of opened) await harness.store.closeSession(id, CALL);
      opened.clear();
      await harness.dispose();
    });

    const contract: Contract = {
      harness: () => harness,
      key: (key) => `${harness.prefix}${key}`,
      open: async (...names) => {
        const ids = names.map((id) => sessionNamed(`${harness.prefix}${id}`));
        for (const id of ids) {
          opened.add(id);
          await harness.store.openSession(id, harness.ttlMs, CALL);
        }
        return ids;
      },
      until: async (condition) => {
        for (let tries = 0; tries < 500 && !condition(); tries += 1) {
          await harness.advance(tries === 0 ? 0 : 10);
        }
        if (!condition()) throw new Error(`never became true: ${String(condition)}`);
      },
    };
    testReads(contract);
    testTransactions(contract);
    testSessions(contract);
    testWatches(contract);
  });
}
