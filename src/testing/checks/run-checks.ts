/** All checks of one run, in one pass over the history of its store and its time line. */
import type { AuditRecord } from '../../store/memory.ts';
import { HistoryChecker } from './history-checks.ts';
import { byRevision, KeyStates, type Version } from './key-states.ts';
import type { Happening } from './time-line.ts';
import { type Broken, type Promises, TimeLineChecker } from './time-line-checks.ts';
import { TransactionChecker } from './transaction-checks.ts';

/** What is known of a run. */
export interface Evidence {
  readonly history: readonly AuditRecord[];
  readonly happenings: readonly Happening[];
  readonly promises: Promises;
  /** As in the configuration of all workers. */
  readonly maxAttempts: number;
}

/** What the checks found. */
export interface Findings {
  readonly broken: readonly Broken[];
  readonly takeovers: number;
}

/** Reads a run from beginning to end. Cost: one decoding of every version of every key. */
export function checkRun({ history, happenings, promises, maxAttempts }: Evidence): Findings {
  const states = new KeyStates();
  const checker = new HistoryChecker(states);
  const transactions = new TransactionChecker(states, maxAttempts);
  const timeLine = new TimeLineChecker(promises);
  const broken: Broken[] = [];
  let takeovers = 0;
  let heard = 0;
  let written = 0;
  /** Stores that have been replaced before so many writes, and not yet by what was heard. */
  const behind = happenings.filter((one) => one.kind === 'replaced');
  const hearUntil = (revision: number): void => {
    for (let next = happenings[heard]; next !== undefined; next = happenings[heard]) {
      const isOfEarlierStore = behind[0] !== undefined && behind[0].writes <= written;
      if (!isOfEarlierStore && (next.kind === 'replaced' || next.revision >= revision)) return;
      if (next.kind === 'replaced') behind.shift();
      broken.push(...timeLine.heard(next));
      heard += 1;
    }
  };
  for (const records of byRevision(history)) {
    const [first] = records;
    hearUntil(Number(first!.revision));
    written += records.length;
    const causes = records.map(({ cause }) => cause);
    const isByHand = first!.cause === 'hand';
    const versions = states.take(isByHand ? records.map(byHand) : records);
    for (const text of checker.read(versions)) broken.push({ check: 'history', text });
    for (const text of transactions.read(versions)) broken.push({ check: 'transaction', text });
    takeovers += transactions.claims.filter(({ isTakeover }) => isTakeover).length;
    const withCause = versions.map((version: Version, index) => ({
      ...version,
      cause: causes[index]!,
      atMs: records[index]!.atMs,
    }));
    broken.push(...timeLine.read(withCause));
  }
  written = Infinity;
  hearUntil(Infinity);
  return { broken, takeovers };
}

function byHand(record: AuditRecord): AuditRecord & { readonly isByHand: boolean } {
  return { ...record, isByHand: true };
}
