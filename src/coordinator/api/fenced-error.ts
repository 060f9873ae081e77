import { LeaseholdError } from '../../base/errors.ts';

/** What a source hears that writes to a split it does not own. */
export function fencedError(split: string, epoch: string | null): LeaseholdError {
  return new LeaseholdError(
    'E_FENCED',
    `split ${split} is no longer this worker's (epoch ${epoch ?? 'none'}): stop and discard; ` +
      'the write is not known to be written',
    { details: { split, epoch } },
  );
}
