/** Owners look after themselves: what their records say now, read at each reconcile (R39). */
import { compareDecimals } from '../../base/decimals.ts';
import { isLeaseholdError } from '../../base/errors.ts';
import { splitCodec } from '../../records/records.ts';
import type { Entry } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import type { Tenancy } from './tenancy.ts';

const READ_SPLITS_MAX = 100;

/** Reads the records of `held`, and tells of each that is no longer of its tenancy's epoch. */
export function checkOwnRecords(
  core: Core,
  held: readonly Tenancy[],
  fence: (tenancy: Tenancy) => void,
): void {
  for (let start = 0; start < held.length; start += READ_SPLITS_MAX) {
    checkSome(core, held.slice(start, start + READ_SPLITS_MAX), fence);
  }
}

function checkSome(
  core: Core,
  tenancies: readonly Tenancy[],
  fence: (tenancy: Tenancy) => void,
): void {
  const { keys, gate, mailbox } = core;
  gate.readKeys(tenancies.map((tenancy) => keys.split(tenancy.split))).then(
    ({ entries, revision }) => {
      mailbox.post(() => {
        for (const tenancy of tenancies) {
          // Written since: the answer to that write has told more than this reading.
          if (tenancy.epoch === null || compareDecimals(tenancy.revision, revision) > 0) continue;
          if (!isStillOwned(core, tenancy, entries.get(keys.split(tenancy.split)))) fence(tenancy);
        }
      });
    },
    (error: unknown) => {
      // The next reconcile reads again.
      if (!isLeaseholdError(error)) throw error;
    },
  );
}

function isStillOwned(core: Core, tenancy: Tenancy, entry: Entry | undefined): boolean {
  if (entry === undefined) {
    core.view.warn(core.keys.split(tenancy.split), 'was deleted while it is owned');
    return false;
  }
  const decoded = splitCodec.decode(entry.value);
  return decoded.kind === 'record' && decoded.record.epoch === tenancy.epoch;
}
