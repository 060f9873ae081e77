/** Reads and deletes the keys of a job. */
import { isLeaseholdError, type Store } from '../../../src/index.ts';
import { CONFIG } from '../job.ts';

type Revision = Parameters<Store['watch']>[1];
type Page = Extract<Awaited<ReturnType<Store['read']>>, { kind: 'page' }>;

const CALL = { timeoutMs: CONFIG.opTimeoutMs } as const;
/** As many as one transaction may delete, and some less. */
const PAGE_ENTRIES = 100;
const TRIES = 5;

/** The store's revision. */
export async function revisionNow(store: Store): Promise<Revision> {
  const answer = await store.read({ keys: ['leasehold'] }, {}, CALL);
  if (answer.kind === 'tooLarge') throw new Error('one key is never too large');
  return answer.revision;
}

/** Everything under a prefix, at a time when nobody writes there. */
export async function readAll(store: Store, prefix: string): Promise<Page['entries']> {
  const entries: Page['entries'][number][] = [];
  for (;;) {
    const after = entries.at(-1)?.key;
    const read = { limit: PAGE_ENTRIES, keysOnly: true };
    const page = await store.read(
      { prefix },
      after === undefined ? read : { ...read, after },
      CALL,
    );
    if (page.kind !== 'page') continue;
    entries.push(...page.entries);
    if (!page.more) return entries;
  }
}

/** Deletes everything under a prefix; returns whether it is gone. An unanswered delete is repeated: it does no harm. */
export async function deleteAll(store: Store, prefix: string): Promise<boolean> {
  for (let tries = 1; tries <= TRIES; tries += 1) {
    try {
      while (await deletePage(store, prefix));
      return true;
    } catch (error) {
      if (!isLeaseholdError(error)) throw error;
    }
  }
  return false;
}

async function deletePage(store: Store, prefix: string): Promise<boolean> {
  const read = { limit: PAGE_ENTRIES, keysOnly: true };
  const page = await store.read({ prefix }, read, CALL);
  if (page.kind !== 'page' || page.entries.length === 0) return page.kind !== 'page';
  const writes = page.entries.map(({ key }) => ({ delete: key }));
  await store.transact({ guard: [], txns: [{ compares: [], writes, onConflict: [] }] }, CALL);
  return true;
}
