/** Owners look after themselves: what their records say now, read at each reconcile (R39). */
import { compareDecimals, minRevision, nextRevision, type Revision } from '../../base/decimals.ts';
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
  const names = held.map(({ split }) => keys.split(split));
  const minModRevision = nextRevision(oldestOf(held));
  const look = gate.readKeys(names, { keysOnly: true, minModRevision });
  const looked = ({ entries, count, revision }: Awaited<typeof look>): void => {
    mailbox.post(() => {
      // One that was deleted is not listed, and missed in the count.
      const isComplete = count === names.length;
      const written = held.filter(({ split, known }) => {
        const entry = entries.get(keys.split(split));
        if (entry === undefined) return !isComplete;
        return compareDecimals(entry.modRevision, known.revision) > 0;
      });
      const isWritten = new Set(written);
      for (const tenancy of held) {
        if (!isWritten.has(tenancy)) tenancy.known.verified(revision);
      }
      readThem(core, written, fence, failed);
    });
  };
  mailbox.hear(look, looked, failed);
}

/** Everything was known of all of them at this revision. */
function oldestOf(held: readonly Tenancy[]): Revision {
  return held.map(({ known }) => known.verifiedAt).reduce(minRevision);
}

function readThem(
  core: Core,
  tenancies: readonly Tenancy[],
  fence: (tenancy: Tenancy) => void,
  failed: (error: unknown) => void,
): void {
  if (tenancies.length === 0) return;
  const { keys, gate, mailbox } = core;
  const read = gate.readKeys(tenancies.map((tenancy) => keys.split(tenancy.split)));
  const took = ({ entries, revision }: Awaited<typeof read>): void => {
    mailbox.post(() => {
      for (const tenancy of tenancies) {
        // Written since: the answer to that write has told more than this reading.
        if (tenancy.epoch === null || compareDecimals(tenancy.known.revision, revision) > 0)
          continue;
        if (!isStillOwned(core, tenancy, entries.get(keys.split(tenancy.split)))) fence(tenancy);
      }
    });
  };
  mailbox.hear(read, took, failed);
}

function isStillOwned(core: Core, tenancy: Tenancy, entry: Entry | undefined): boolean {
  if (entry === undefined) {
    core.warnings.warn(core.keys.split(tenancy.split), 'was deleted while it is owned');
    return false;
  }
  const decoded = splitCodec.decode(entry.value);
  return decoded.kind === 'record' && decoded.record.epoch === tenancy.epoch;
}
