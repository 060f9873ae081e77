import type { SplitId } from '../../base/ids.ts';
import type { SetAsideRule } from '../../protocol/tenancy-records.ts';
import type { SplitRecord } from '../../records/records.ts';
import type { Core } from './core.ts';

/** Says once, where it was written, that a split is set aside, and why. */
export function sayQuarantined(
  { log }: Core,
  split: SplitId,
  record: SplitRecord,
  rule: SetAsideRule,
): void {
  const { attempts, lastFailure } = record;
  const reason = lastFailure?.reason ?? 'unknown';
  log.warn('split.quarantined', `a split is set aside (${rule}): ${reason}`, {
    split,
    epoch: lastFailure?.epoch ?? record.epoch,
    rule,
    attempts,
    reason,
    by: lastFailure?.by ?? 'unknown',
  });
}
