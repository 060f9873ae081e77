/** Owners look after themselves: what their records say now, read at each reconcile (R39). */
import { compareDecimals } from '../../base/decimals.ts';
import { isLeaseholdError } from '../../base/errors.ts';
import { splitCodec } from '../../records/records.ts';
import type { Entry } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import type { Tenancy } from './tenancy.ts';

/**
 * Looks whether anybody wrote the records of `held`, and reads those that were written; tells of each that is no longer of
 * its tenancy's epoch.
 */
export function checkOwnRecords(
  core: Core,
  held: readonly Tenancy[],
  fence: (tenancy: Tenancy) => void,
): void {
  if (held.length === 0) return;
  const { keys, gate, mailbox } = core;
  const failed = (error: unknown): void => {
    // The next reconcile looks again.
    if (!isLeaseholdError(error)) core.bug(error);
  };
  const known = new Map(held.map(({ split, known }) => [keys.split(split), known.revision]));
  gate.readKeys([...known.keys()], { keysOnly: true, known }).then(({ entries, count }) => {
    mailbox.post(() => {
      // One that was deleted is not listed, and missed in the count.
      const isComplete = count === known.size;
      const written = held.filter((tenancy) => {
        const entry = entries.get(keys.split(tenancy.split));
        if (entry === undefined) return !isComplete;
        return compareDecimals(entry.modRevision, tenancy.known.revision) > 0;
      });
      readThem(core, written, fence, failed);
    });
  }, failed);
}

function readThem(
  core: Core,
  tenancies: readonly Tenancy[],
  fence: (tenancy: Tenancy) => void,
  failed: (error: unknown) => void,
): void {
  if (tenancies.length === 0) return;
  const { keys, gate, mailbox } = core;
  gate
    .readKeys(tenancies.map((tenancy) => keys.split(tenancy.split)))
    .then(({ entries, revision }) => {
      mailbox.post(() => {
        for (const tenancy of tenancies) {
          // Written since: the answer to that write has told more than this reading.
          if (tenancy.epoch === null || compareDecimals(tenancy.known.revision, revision) > 0)
            continue;
          if (!isStillOwned(core, tenancy, entries.get(keys.split(tenancy.split)))) fence(tenancy);
        }
      });
    }, failed);
}

function isStillOwned(core: Core, tenancy: Tenancy, entry: Entry | undefined): boolean {
  if (entry === undefined) {
    core.warnings.warn(core.keys.split(tenancy.split), 'was deleted while it is owned');
    return false;
  }
  const decoded = splitCodec.decode(entry.value);
  return decoded.kind === 'record' && decoded.record.epoch === tenancy.epoch;
}
