/**
 * What shows on this worker's own lease keys: the state of each tenancy (T11), and nothing that no tenancy holds (R12).
 */
import { compareDecimals } from '../../base/decimals.ts';
import { isLeaseholdError } from '../../base/errors.ts';
import type { SplitId } from '../../base/ids.ts';
import { releasedRecord } from '../../protocol/tenancy-records.ts';
import { leaseCodec, type LeaseState, splitCodec } from '../../records/records.ts';
import type { Entry, Txn } from '../../store/port.ts';
import { NO_GUARD } from '../link/batcher.ts';
import type { Core } from '../link/core.ts';
import type { Seen } from '../link/fleet-view.ts';
import type { LeaseRecord } from '../../records/records.ts';
import type { Tenancy } from './tenancy.ts';

export class LeaseKeeper {
  readonly #core: Core;
  readonly #droppingOrphans = new Set<SplitId>();

  constructor(core: Core) {
    this.#core = core;
  }

  /** Each third of a lease: what a lost mark left wrong is marked again, orphans are dropped. */
  tick(tenancies: ReadonlyMap<SplitId, Tenancy>): void {
    const { view, session } = this.#core;
    if (session.id === null) return;
    for (const [split, lease] of view.leases) {
      if (lease.session !== session.id) continue;
      const tenancy = tenancies.get(split);
      const isHeld = tenancy !== undefined && (tenancy.isClaiming || tenancy.chart.hasTag('held'));
      if (!isHeld) this.#dropOrphan(split, lease);
      else if (tenancy.chart.hasTag('held')) this.mark(tenancy);
    }
  }

  /** Shows the tenancy's state on its lease, if it shows another; a mark that is lost is dropped (R32). */
  mark(tenancy: Tenancy): void {
    const core = this.#core;
    const state = shownState(tenancy.chart.state);
    const seen = core.view.leases.get(tenancy.split);
    const { id } = core.session;
    if (state === null || seen === undefined || id === null || seen.session !== id) return;
    if (seen.record.state === state || tenancy.isMarking) return;
    tenancy.isMarking = true;
    const key = core.keys.lease(tenancy.split);
    const value = leaseCodec.encode({ ...seen.record, state }, core.stamp());
    core.batcher.enqueue({
      name: 'mark',
      isSessionBound: true,
      isDisposable: true,
      guard: NO_GUARD,
      build: (): Txn => ({
        compares: [{ key, target: 'modRevision', equals: seen.modRevision }],
        writes: [{ put: key, value, session: id }],
        onConflict: [],
      }),
      matters: () => core.session.id === id && !tenancy.chart.hasEnded,
      answered: (answer) => {
        tenancy.isMarking = false;
        if (answer.kind !== 'committed') return;
        core.view.wrote(key, value, answer.revision, id);
        // The state may have moved on meanwhile.
        this.mark(tenancy);
      },
    });
  }

  /** A lease under this session that no tenancy holds: released if the record is mine, else deleted alone (T9, T9b). */
  #dropOrphan(split: SplitId, lease: Seen<LeaseRecord>): void {
    const core = this.#core;
    if (this.#droppingOrphans.has(split)) return;
    this.#droppingOrphans.add(split);
    core.gate.readKeys([core.keys.split(split)]).then(
      ({ entries }) => {
        core.mailbox.post(() => {
          this.#putOrphan(split, lease, entries.get(core.keys.split(split)));
        });
      },
      (error: unknown) => {
        // The next tick tries again.
        if (!isLeaseholdError(error)) throw error;
        this.#droppingOrphans.delete(split);
      },
    );
  }

  #putOrphan(split: SplitId, lease: Seen<LeaseRecord>, entry: Entry | undefined): void {
    const core = this.#core;
    const leaseKey = core.keys.lease(split);
    const splitKey = core.keys.split(split);
    const decoded = entry === undefined ? undefined : splitCodec.decode(entry.value);
    const mine =
      decoded?.kind === 'record' &&
      decoded.record.owner === core.me &&
      decoded.record.nonce === core.nonce &&
      decoded.record.status === 'runnable' &&
      compareDecimals(decoded.record.epoch, lease.record.epoch) === 0
        ? decoded.record
        : undefined;
    const leaseUnchanged = {
      key: leaseKey,
      target: 'modRevision',
      equals: lease.modRevision,
    } as const;
    const stamp = core.stamp();
    const txn: Txn =
      mine === undefined
        ? { compares: [leaseUnchanged], writes: [{ delete: leaseKey }], onConflict: [] }
        : {
            compares: [
              { key: splitKey, target: 'modRevision', equals: entry!.modRevision },
              leaseUnchanged,
            ],
            writes: [
              {
                put: splitKey,
                value: splitCodec.encode(releasedRecord(mine), stamp),
                session: null,
              },
              { delete: leaseKey },
            ],
            onConflict: [],
          };
    core.batcher.enqueue({
      name: 'orphan',
      isSessionBound: false,
      guard: NO_GUARD,
      build: () => txn,
      matters: () => core.session.id === lease.session,
      answered: (answer) => {
        this.#droppingOrphans.delete(split);
        if (answer.kind !== 'committed') return;
        core.view.wrote(leaseKey, null, answer.revision);
      },
    });
  }
}

/** What a lease shows in a state of the tenancy; null in states that show nothing. */
function shownState(state: string): LeaseState | null {
  switch (state) {
    case 'held.owned':
      return 'owned';
    case 'held.draining':
      return 'draining';
    case 'held.cancelledDrain':
      return 'cancelledDrain';
    default:
      return null;
  }
}
