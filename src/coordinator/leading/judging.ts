/**
 * The leader's judgement: when no split can run any more, reads everything at one revision and writes the verdict (T13).
 *
 * Rules: R21-R23. A verdict compares the plan's revision: a requeue in between is never overlooked.
 */
import type { LeaderEvent } from '../../../machines/leader/leader.events.ts';
import type { Revision } from '../../base/decimals.ts';
import type { SplitId } from '../../base/ids.ts';
import { judgedPlan } from '../../protocol/plan-records.ts';
import { decideVerdict } from '../../protocol/verdict.ts';
import type { Decoded } from '../../records/codec.ts';
import { KEY_PREFIXES, parseKey } from '../../records/keys.ts';
import {
  planCodec,
  type PlanRecord,
  splitCodec,
  type SplitRecord,
  type VerdictRecord,
} from '../../records/records.ts';
import type { Entry } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import type { Term } from './term.ts';

interface ReadSplit {
  readonly id: SplitId;
  readonly modRevision: Revision;
  readonly decoded: Decoded<SplitRecord>;
}

interface Reading {
  readonly plan: Entry | undefined;
  readonly splits: readonly ReadSplit[];
  readonly specs: ReadonlySet<SplitId>;
}

interface Judgement {
  readonly plan: PlanRecord;
  readonly modRevision: Revision;
  readonly verdict: VerdictRecord;
}

export class Judging {
  readonly #core: Core;
  readonly #send: (event: LeaderEvent) => void;
  #judgement: Judgement | null = null;
  /** What the last judgement looked at; nothing new means nothing to judge. */
  #judged = '';

  constructor(core: Core, send: (event: LeaderEvent) => void) {
    this.#core = core;
    this.#send = send;
  }

  /** A judgement is due when nothing can run, and something moved since the last one. */
  advance(term: Term): void {
    const { view } = this.#core;
    if (view.plan.kind !== 'seen' || view.isPaused || term.index.runnableCount > 0) return;
    const { record } = view.plan.plan;
    if (!record.sealed || record.verdict !== null) return;
    // While a judgement runs, the chart drops this; what moved meanwhile is judged after it.
    if (this.#stateOf(term) !== this.#judged) this.#send({ type: 'judgement.due' });
  }

  /** Whatever was in the way may have been repaired by hand: the next decision judges again. */
  lookAgain(): void {
    this.#judged = '';
  }

  /** The plan changed: a verdict may have been taken back by a requeue. */
  planChanged(): void {
    const { plan } = this.#core.view;
    const hasVerdict = plan.kind === 'seen' && plan.plan.record.verdict !== null;
    this.#send({ type: hasVerdict ? 'verdict.found' : 'verdict.cleared' });
  }

  /** Reads the plan and every split at one revision, and decides. */
  read(term: Term): void {
    this.#judged = this.#stateOf(term);
    term.run(
      () => this.#readAll(term),
      (reading) => {
        this.#decide(term, reading);
      },
    );
  }

  /** Writes the verdict, if the plan is what was read, and the job is not paused (R23). */
  record(term: Term): void {
    const judgement = this.#judgement!;
    const { keys } = this.#core;
    const next = judgedPlan(judgement.plan, judgement.verdict);
    const value = planCodec.encode(next, this.#core.stamp());
    const where = { equals: judgement.modRevision, absent: [keys.paused] };
    void term.put('verdict', keys.plan, value, where).then((landed) => {
      this.#core.mailbox.post(() => {
        // What was in the way is known now; once it is gone the same state is judged again.
        if (!landed) this.#judged = '';
        if (!term.isOver) this.#send({ type: landed ? 'verdict.written' : 'judgement.open' });
      });
    });
  }

  #stateOf(term: Term): string {
    const { plan } = this.#core.view;
    const modRevision = plan.kind === 'seen' ? plan.plan.modRevision : plan.kind;
    return `${modRevision} ${term.index.version} ${term.generation}`;
  }

  #decide(term: Term, reading: Reading): void {
    const { view } = this.#core;
    const decodedPlan = reading.plan === undefined ? null : planCodec.decode(reading.plan.value);
    if (decodedPlan?.kind !== 'record') {
      this.#send({ type: 'judgement.open' });
      return;
    }
    const { splits, specs } = reading;
    const decision = decideVerdict({
      plan: decodedPlan.record,
      splits: splits.map(({ id, decoded }) => [id, decoded] as const),
      specs: { count: specs.size, ids: specs },
      paused: view.isPaused,
    });
    if (decision.kind === 'verdict') {
      this.#judgement = {
        plan: decodedPlan.record,
        modRevision: reading.plan!.modRevision,
        verdict: decision.verdict,
      };
      this.#send({ type: 'judgement.reached' });
      return;
    }
    this.#explain(decision.reason, decision.ids);
    const isJudged = decision.reason !== 'paused' && this.#judged === this.#stateOf(term);
    for (const { id, decoded, modRevision } of splits) {
      if (term.index.get(id)?.modRevision !== modRevision) term.index.put(id, decoded, modRevision);
    }
    this.#judged = isJudged ? this.#stateOf(term) : '';
    this.#send({ type: 'judgement.open' });
    this.#send({ type: 'inputs.changed', delayMs: 0 });
  }

  #explain(reason: string, ids: readonly SplitId[]): void {
    if (reason !== 'mismatch' && reason !== 'unreadable') return;
    const shown = ids.slice(0, 20);
    this.#core.warnings.warn(
      `${this.#core.keys.plan}#${reason}#${shown.join()}`,
      reason === 'mismatch'
        ? `no verdict: specs and splits do not pair up for ${shown.join(', ')}; requeue or delete them`
        : `no verdict: ${shown.join(', ')} cannot be read; repair or upgrade`,
    );
  }

  /** All at the revision of the plan; compacted meanwhile: from the start. */
  async #readAll(term: Term): Promise<Reading> {
    const { leaderGate: gate, keys } = this.#core;
    for (;;) {
      const splits: ReadSplit[] = [];
      const specs = new Set<SplitId>();
      const { entries, revision } = await term.answered('judging', () =>
        gate.readKeys([keys.plan]),
      );
      const list = (kind: string, keysOnly: boolean, take: (entry: Entry) => void) =>
        term.list(
          'judging',
          { prefix: keys.root + kind },
          { keysOnly, atRevision: revision },
          (page) => {
            for (const entry of page) take(entry);
          },
        );
      const ends = [
        await list(KEY_PREFIXES.splits, false, (entry) => {
          const name = parseKey(keys, entry.key);
          if (name.kind !== 'split') return;
          const decoded = withoutState(splitCodec.decode(entry.value));
          splits.push({ id: name.split, modRevision: entry.modRevision, decoded });
        }),
        await list(KEY_PREFIXES.specs, true, (entry) => {
          const name = parseKey(keys, entry.key);
          if (name.kind === 'spec') specs.add(name.split);
        }),
      ];
      if (!ends.includes('compacted')) return { plan: entries.get(keys.plan), splits, specs };
    }
  }
}

/** A judgement must not hold the states of all splits. */
function withoutState(decoded: Decoded<SplitRecord>): Decoded<SplitRecord> {
  if (decoded.kind !== 'record') return decoded;
  return { ...decoded, record: { ...decoded.record, state: null } };
}
