/**
 * What shows on this worker's own lease keys: the state of each tenancy (T11), and nothing that no tenancy holds (R12).
 */
import { compareDecimals } from '../../base/decimals.ts';
import { isLeaseholdError } from '../../base/errors.ts';
import type { SplitId } from '../../base/ids.ts';
import { releasedRecord } from '../../protocol/tenancy-records.ts';
import { markTxn, orphanTxn } from '../../protocol/transactions.ts';
import { leaseCodec, type LeaseState, splitCodec } from '../../records/records.ts';
import type { Entry } from '../../store/port.ts';
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
      const isHeld = tenancy?.chart.hasTag('held') === true;
      if (isHeld) this.mark(tenancy);
      else if (tenancy?.chart.isIn('claiming') !== true) this.#dropOrphan(split, lease);
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
      build: () => markTxn(key, value, { equals: seen.modRevision, session: id }),
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
        this.#droppingOrphans.delete(split);
        if (!isLeaseholdError(error)) core.bug(error);
      },
    );
  }

  #putOrphan(split: SplitId, lease: Seen<LeaseRecord>, entry: Entry | undefined): void {
    const core = this.#core;
    const leaseKey = core.keys.lease(split);
    const decoded = entry === undefined ? undefined : splitCodec.decode(entry.value);
    const mine =
      decoded?.kind === 'record' &&
      decoded.record.owner === core.me &&
      decoded.record.nonce === core.nonce &&
      decoded.record.status === 'runnable' &&
      compareDecimals(decoded.record.epoch, lease.record.epoch) === 0
        ? decoded.record
        : undefined;
    const released =
      mine === undefined
        ? null
        : {
            value: splitCodec.encode(releasedRecord(mine), core.stamp()),
            revision: entry!.modRevision,
          };
    const txn = orphanTxn(core.keys, split, lease, released);
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
