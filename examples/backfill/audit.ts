/**
 * Looks for writes of the dead: goes through every write of every split, in the order of the store, and names those that
 * a fence should have refused.
 *
 * Each claim raises a split's epoch by one and names the process that made it. So no write may come under an epoch older
 * than the newest, none from another process than the one that claimed its epoch, and none after the end. An epoch that
 * is left out means that the history seen here has a gap.
 */
import type { SplitRecord } from './ledger.ts';

export class Audit {
  readonly #splits = new Map<string, SplitRecord>();
  readonly violations: string[] = [];
  /** Writes looked at. */
  writes = 0;

  /** A split was written; null when it was deleted. */
  see(splitId: string, record: SplitRecord | null): void {
    this.writes += 1;
    const problem = problemOf(this.#splits.get(splitId) ?? null, record);
    if (problem !== null) this.violations.push(`${splitId}: ${problem}`);
    if (record !== null) this.#splits.set(splitId, record);
  }
}

/** What is wrong with a write; null when nothing is. */
function problemOf(before: SplitRecord | null, after: SplitRecord | null): string | null {
  if (after === null) return 'was deleted';
  const { by, epoch, nonce, owner, status } = after;
  if (before === null) return epoch === '0' ? null : `begins at epoch ${epoch}: history has a gap`;
  const rise = BigInt(epoch) - BigInt(before.epoch);
  if (rise < 0n) return `${by.instance} wrote under epoch ${epoch}, after epoch ${before.epoch}`;
  if (rise > 1n) return `epoch ${before.epoch} is followed by ${epoch}: history has a gap`;
  if (before.status !== 'runnable') return `${by.instance} wrote after it was ${before.status}`;
  if (rise === 0n && nonce !== before.nonce) return `two processes wrote under epoch ${epoch}`;
  // Only the leader may write what it has not claimed, and only to quarantine it.
  if (status !== 'quarantined' && by.nonce !== nonce) {
    return `${by.instance} wrote under epoch ${epoch}, which it had not claimed`;
  }
  if (rise === 0n && before.owner === null) return `${by.instance} wrote after handing it back`;
  if (rise === 1n && owner === null && status !== 'quarantined') return 'claimed by nobody';
  const fell =
    before.watermark !== null && BigInt(after.watermark ?? -1) < BigInt(before.watermark);
  return fell ? `its watermark fell from ${before.watermark} to ${after.watermark}` : null;
}
