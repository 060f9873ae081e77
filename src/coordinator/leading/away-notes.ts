/**
 * Since when the members that vanished have been missing, noted in the store: what is left of the rebalance delay rests on the
 * job, not on who leads (R26). Only a leader that never saw the member reads the note, by wall clocks that may disagree, so that
 * it only ever shortens a wait.
 */
import { ABSENT, type Revision } from '../../base/decimals.ts';
import type { InstanceId } from '../../base/ids.ts';
import { delayLeftMs, ownersToAwait } from '../../protocol/withheld.ts';
import { putTxn } from '../../protocol/transactions.ts';
import { KEY_PREFIXES, parseKey } from '../../records/keys.ts';
import { awayCodec } from '../../records/records.ts';
import type { Entry } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import type { Peers } from '../membership/peers.ts';
import type { Term } from './term.ts';

interface Note {
  readonly since: number;
  readonly revision: Revision;
}

export class AwayNotes {
  readonly #core: Core;
  readonly #term: Term;
  readonly #peers: Peers;
  /** Notes that stand in the store. */
  readonly #notes = new Map<InstanceId, Note>();
  /** Instances whose note is being written or deleted. */
  readonly #underWay = new Set<InstanceId>();

  constructor(core: Core, term: Term, peers: Peers) {
    this.#core = core;
    this.#term = term;
    this.#peers = peers;
  }

  /** Reads what earlier leaders noted. @throws `E_STOPPED` when the term is over. */
  async read(): Promise<void> {
    const prefix = this.#core.keys.root + KEY_PREFIXES.away;
    for (;;) {
      const listed = await this.#term.list('reading assignments', { prefix }, {}, (entries) => {
        for (const entry of entries) this.#take(entry);
      });
      if (listed !== 'compacted') return;
      this.#notes.clear();
    }
  }

  /** Owners that this worker never saw: what is left of their delay runs, unless they were given up (R26). */
  awaitMissing(): void {
    const { clock, config, view } = this.#core;
    const { presences, assignments } = view;
    const missing = ownersToAwait(
      this.#term.index.owned(),
      (instance) => presences.has(instance),
      (instance) => assignments.has(instance),
    );
    for (const instance of missing) {
      const since = this.#notes.get(instance)?.since;
      const leftMs = delayLeftMs(since, clock.wallMs(), config.rebalanceDelayMs);
      this.#peers.missing(instance, leftMs);
    }
  }

  /** Notes who is missing now, and forgets who is back or given up. */
  update(): void {
    for (const [instance, note] of this.#notes) {
      if (!this.#peers.isAway(instance)) this.#put(instance, null, note.revision);
    }
    for (const { instance, awayForMs } of this.#peers.away()) {
      if (this.#notes.has(instance)) continue;
      const since = Math.max(0, Math.round(this.#core.clock.wallMs() - awayForMs));
      this.#put(instance, since, ABSENT);
    }
  }

  #take({ key, value, modRevision }: Entry): void {
    const name = parseKey(this.#core.keys, key);
    const decoded = awayCodec.decode(value);
    if (name.kind !== 'away' || decoded.kind !== 'record') return;
    this.#notes.set(name.instance, { since: decoded.record.since, revision: modRevision });
  }

  /** One try: what fails is made up for by the next decision. */
  #put(instance: InstanceId, since: number | null, equals: Revision): void {
    if (this.#underWay.has(instance)) return;
    this.#underWay.add(instance);
    const core = this.#core;
    const key = core.keys.away(instance);
    const value = since === null ? null : awayCodec.encode({ since }, core.stamp());
    void this.#term
      .write('away', () => putTxn(key, value, { equals }))
      .then((answer) => {
        core.mailbox.post(() => {
          this.#underWay.delete(instance);
          if (answer.kind !== 'committed' && answer.kind !== 'conflict') return;
          this.#notes.delete(instance);
          const found = answer.kind === 'conflict' ? answer.found[0] : null;
          if (found !== null && found !== undefined) this.#take(found);
          else if (answer.kind === 'committed' && since !== null) {
            this.#notes.set(instance, { since, revision: answer.revision });
          }
        });
      });
  }
}
