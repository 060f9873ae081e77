/**
 * The leader's judgement: when no split can run any more, reads everything at one revision and writes the verdict (T13).
 *
 * Rules: R21-R23. A verdict compares the plan's revision: a requeue in between is never overlooked.
 */
import type { LeaderEvent } from '../../machines/leader.events.ts';
import type { Revision } from '../base/decimals.ts';
import { isLeaseholdError } from '../base/errors.ts';
import type { SplitId } from '../base/ids.ts';
import { decideVerdict } from '../protocol/verdict.ts';
import { KEY_PREFIXES, parseKey } from '../records/keys.ts';
import { planCodec, type PlanRecord, splitCodec, type VerdictRecord } from '../records/records.ts';
import type { Entry } from '../store/port.ts';
import type { Core } from './core.ts';
import type { Term } from './term.ts';

/** Most keys of one page: with states of 256 KiB each, a page must stay transportable (R23). */
const PAGE_KEYS_MAX = 256;
const READ_RETRY_MS = 200;

interface Reading {
  readonly plan: Entry | undefined;
  readonly splits: readonly Entry[];
  readonly specs: readonly Entry[];
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
  planChanged(term: Term): void {
    const { plan } = this.#core.view;
    const hasVerdict = plan.kind === 'seen' && plan.plan.record.verdict !== null;
    if (!term.isReady) return;
    this.#send({ type: hasVerdict ? 'verdict.found' : 'verdict.cleared' });
  }

  /** Reads the plan and every split at one revision, and decides. */
  read(term: Term): void {
    this.#judged = this.#stateOf(term);
    this.#readAll().then(
      (reading) => {
        this.#core.mailbox.post(() => {
          if (!term.isOver) this.#decide(term, reading);
        });
      },
      (error: unknown) => {
        if (!isLeaseholdError(error)) throw error;
        this.#core.clock.setTimeout(() => {
          this.#core.mailbox.post(() => {
            if (!term.isOver) this.read(term);
          });
        }, READ_RETRY_MS);
      },
    );
  }

  /** Writes the verdict, if the plan is what was read. */
  record(term: Term): void {
    const judgement = this.#judgement!;
    const { keys } = this.#core;
    const value = planCodec.encode(
      { ...judgement.plan, verdict: judgement.verdict },
      this.#core.stamp(),
    );
    void term.put('verdict', keys.plan, value, judgement.modRevision).then((landed) => {
      this.#core.mailbox.post(() => {
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
    const { keys, view } = this.#core;
    const decodedPlan = reading.plan === undefined ? null : planCodec.decode(reading.plan.value);
    if (decodedPlan?.kind !== 'record') {
      this.#send({ type: 'judgement.open' });
      return;
    }
    const splits = reading.splits.flatMap((entry) => {
      const name = parseKey(keys, entry.key);
      return name.kind === 'split'
        ? [{ id: name.split, entry, decoded: splitCodec.decode(entry.value) }]
        : [];
    });
    const ids = new Set<SplitId>();
    for (const entry of reading.specs) {
      const name = parseKey(keys, entry.key);
      if (name.kind === 'spec') ids.add(name.split);
    }
    const decision = decideVerdict({
      plan: decodedPlan.record,
      splits: splits.map(({ id, decoded }) => [id, decoded] as const),
      specs: { count: ids.size, ids },
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
    for (const { id, entry, decoded } of splits) term.index.put(id, entry, decoded);
    this.#judged = isJudged ? this.#stateOf(term) : '';
    this.#send({ type: 'judgement.open' });
    this.#send({ type: 'inputs.changed', delayMs: 0 });
  }

  #explain(reason: string, ids: readonly SplitId[]): void {
    if (reason !== 'mismatch' && reason !== 'unreadable') return;
    const shown = ids.slice(0, 20);
    this.#core.view.warn(
      `${this.#core.keys.plan}#${reason}#${shown.join()}`,
      reason === 'mismatch'
        ? `no verdict: specs and splits do not pair up for ${shown.join(', ')}; requeue or delete them`
        : `no verdict: ${shown.join(', ')} cannot be read; repair or upgrade`,
    );
  }

  /** All at the revision of the first read; compacted meanwhile: from the start. */
  async #readAll(): Promise<Reading> {
    const { gate, keys } = this.#core;
    for (;;) {
      const { entries, revision } = await gate.readKeys([keys.plan]);
      const splits = await this.#readAt(keys.root + KEY_PREFIXES.splits, revision, false);
      const specs = splits && (await this.#readAt(keys.root + KEY_PREFIXES.specs, revision, true));
      if (splits === null || specs === null) continue;
      return { plan: entries.get(keys.plan), splits, specs };
    }
  }

  async #readAt(prefix: string, atRevision: Revision, keysOnly: boolean): Promise<Entry[] | null> {
    const entries: Entry[] = [];
    let after: string | undefined;
    for (;;) {
      const page = await this.#core.gate.read(
        { prefix },
        { atRevision, keysOnly, limit: PAGE_KEYS_MAX, ...(after === undefined ? {} : { after }) },
      );
      if (page.kind === 'compacted') return null;
      entries.push(...page.entries);
      if (!page.more) return entries;
      after = page.entries.at(-1)!.key;
    }
  }
}
