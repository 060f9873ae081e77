/**
 * Random histories that two stores must tell alike: every answer, every revision, every watch.
 *
 * A history counts revisions from its own beginning, so that a store that was used before can take part. Each step waits for
 * its answers, and nothing happens by time alone: sessions end by being closed. Watches run on a connection of their own,
 * which is cut now and then. The same seed gives the same steps.
 */
import { expect } from '@jest/globals';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import {
  ABSENT,
  compareDecimals,
  type Revision,
  revisionOf,
} from '../../../../src/base/decimals.ts';
import { InvariantViolation, isLeaseholdError, messageOf } from '../../../../src/base/errors.ts';
import type { SessionId } from '../../../../src/base/ids.ts';
import { type Random, seededRandom } from '../../../../src/base/random.ts';
import type { Entry, Range, Store, WatchEvent } from '../../../../src/store/port.ts';
import { record, type Recording } from '../../../store/support.ts';
import { HistoryDrawer, NAMES, RANGES, type Step, underPrefix } from './history-steps.ts';
import { patiently } from '../../../support/patience.js';

/** One of the two stores. */
export interface Side {
  readonly name: string;
  /** Takes the calls. */
  readonly store: Store;
  /** Another client of the same store, which takes the watches. */
  readonly watcher: Store;
  /** Breaks the connection of the watches; they resume by themselves at once. */
  drop(): void;
  /** Breaks the connection of the watches until `heal`. */
  cut(): void;
  heal(): Promise<void>;
  /** Forgets history before a revision, given as this side counts. */
  compact(revision: Revision): Promise<void>;
}

export interface HistoryOptions {
  readonly seed: number;
  readonly steps: number;
  /** Believed: its state is what the steps aim at. */
  readonly reference: Side;
  readonly subject: Side;
  /** How long the subject's watches may lag behind; 10 s when absent. */
  readonly settleMsMax?: number;
}

/** How often each kind of answer and of watch event was seen. */
export type Tally = Record<string, number>;

interface OpenWatch {
  readonly range: Range;
  readonly recordings: readonly [Recording, Recording];
  /** Events that were compared. */
  compared: number;
}

/** A call on one side; the functions turn conditions and revisions into those that the side counts. */
type Call = (
  store: Store,
  to: <Condition extends object>(condition: Condition) => Condition,
  toRevision: (revision: Revision) => Revision,
) => Promise<unknown>;

const CALL = { timeoutMs: patiently(5_000) };
const SETTLE_MS_MAX = 10_000;
const STEPS_SHOWN = 40;
/** Revisions of the past that steps aim at. */
const REVISIONS_BACK = 40;

/** Makes one history on both sides. @throws {Error} What differs first, with the steps that led there. */
export async function runHistory(options: HistoryOptions): Promise<Tally> {
  const history = new History(options);
  try {
    await history.begin();
    for (let step = 1; step <= options.steps; step += 1) await history.next();
    await history.settle();
  } catch (error) {
    const { seed, steps, subject } = options;
    throw new Error(
      `${subject.name} differs at step ${history.stepCount} of seed ${seed}:\n${messageOf(error)}\n` +
        `the steps before, oldest first:\n${history.lastSteps}\n` +
        `replay: LEASEHOLD_SEED=${seed} LEASEHOLD_STEPS=${steps} npm test -- test/etcd/differential`,
      { cause: error },
    );
  } finally {
    await history.end();
  }
  return history.tally;
}

let historyCount = 0;

class History {
  readonly tally: Tally = {};
  stepCount = 0;
  readonly #sides: readonly [Side, Side];
  readonly #settleMsMax: number;
  readonly #offsets: [bigint, bigint] = [0n, 0n];
  readonly #prefix: string;
  readonly #random: Random;
  readonly #drawer: HistoryDrawer;
  readonly #sessions: SessionId[];
  readonly #watches: OpenWatch[] = [];
  readonly #steps: string[] = [];
  #newest = 1;
  #compacted = 0;
  #isCut = false;

  constructor({ seed, reference, subject, settleMsMax = SETTLE_MS_MAX }: HistoryOptions) {
    this.#settleMsMax = settleMsMax;
    historyCount += 1;
    this.#prefix = `history-${process.pid}-${historyCount}/`;
    this.#sides = [reference, subject];
    this.#random = seededRandom(seed);
    // Leases of etcd: no history meets those of another one.
    const base = BigInt(process.pid) * 1_000_000n + BigInt(historyCount) * 100n;
    this.#sessions = Array.from(
      { length: 6 },
      (_, index) => String(base + BigInt(index + 1)) as SessionId,
    );
    this.#drawer = new HistoryDrawer(this.#random, this.#prefix, this.#sessions);
  }

  get lastSteps(): string {
    return this.#steps.join('\n');
  }

  /** Writes once on each side, and counts from there: what happened before is out of reach. */
  async begin(): Promise<void> {
    const write = { put: `${this.#prefix}begin`, value: '', session: null };
    const batch = { guard: [], txns: [{ compares: [], writes: [write], onConflict: [] }] };
    for (const [index, { store }] of this.#sides.entries()) {
      const { revision } = await store.transact(batch, CALL);
      this.#offsets[index] = BigInt(revision) - 1n;
    }
  }

  async next(): Promise<void> {
    this.stepCount += 1;
    const step = this.#drawer.draw({
      entries: await this.#entries(),
      newest: this.#newest,
      oldest: Math.max(1, this.#newest - REVISIONS_BACK),
      compacted: this.#compacted,
      watchCount: this.#watches.length,
      isCut: this.#isCut,
    });
    this.#steps.push(`${this.stepCount} @${this.#newest} ${JSON.stringify(step)}`.slice(0, 2_000));
    if (this.#steps.length > STEPS_SHOWN) this.#steps.shift();
    await this.#do(step);
  }

  /** Waits until the subject's watches have told what the reference's have, and compares. */
  async settle(): Promise<void> {
    // The reference tells in a microtask what it has to tell.
    await setImmediate();
    const endMs = performance.now() + patiently(this.#settleMsMax);
    for (const watch of this.#watches) {
      const [reference, subject] = watch.recordings;
      while (
        performance.now() < endMs &&
        (subject.events.length < reference.events.length ||
          subject.isComplete !== reference.isComplete)
      ) {
        await sleep(1);
      }
      this.#compareWatch(watch);
    }
  }

  async end(): Promise<void> {
    for (const { recordings } of this.#watches)
      for (const recording of recordings) recording.stop();
    for (const side of this.#sides) {
      await side.heal();
      for (const id of this.#sessions) await side.store.closeSession(id, CALL);
    }
  }

  async #do(step: Step): Promise<void> {
    switch (step.do) {
      case 'transact':
        await this.#transact((store, to) =>
          store.transact(
            {
              guard: step.batch.guard.map(to),
              txns: step.batch.txns.map((txn) => ({ ...txn, compares: txn.compares.map(to) })),
            },
            CALL,
          ),
        );
        break;
      case 'open':
        await this.#both(step.do, (store) => store.openSession(step.id, step.ttlMs, CALL));
        break;
      case 'keepAlive':
        await this.#both(step.do, (store) => store.keepAlive(step.id, CALL));
        break;
      case 'close':
        await this.#both(step.do, (store) => store.closeSession(step.id, CALL));
        await this.#follow();
        break;
      case 'read':
        await this.#read(step);
        break;
      case 'watch':
        this.#watch(step.range, step.from);
        await this.settle();
        break;
      case 'rewatch':
        await this.#rewatch(step.index, step.back);
        break;
      case 'unwatch':
        await this.settle();
        for (const recording of this.#watches.splice(step.index, 1)[0]!.recordings)
          recording.stop();
        break;
      case 'drop':
        for (const side of this.#sides) side.drop();
        break;
      case 'cut':
        // Both sides must resume from the same revision later: an event between two keys of a watch moves etcd's on alone.
        await this.#mark();
        await this.settle();
        for (const side of this.#sides) side.cut();
        this.#isCut = true;
        break;
      case 'heal':
        for (const side of this.#sides) await side.heal();
        this.#isCut = false;
        await this.settle();
        break;
      case 'compact':
        await this.#compact(step.revision);
        break;
    }
  }

  async #read({ range, read, isPaged }: Step & { do: 'read' }): Promise<void> {
    let next = read;
    for (;;) {
      const { atRevision, minModRevision, known } = next;
      const outcome = await this.#both('read', (store, _to, toRevision) => {
        const at = atRevision === undefined ? {} : { atRevision: toRevision(atRevision) };
        const since =
          minModRevision === undefined ? {} : { minModRevision: toRevision(minModRevision) };
        const knows =
          known === undefined
            ? {}
            : {
                known: new Map(
                  [...known].map(([key, revision]) => [
                    key,
                    revision === ABSENT ? revision : toRevision(revision),
                  ]),
                ),
              };
        return store.read(range, { ...next, ...at, ...since, ...knows }, CALL);
      });
      const page = outcome as {
        kind?: string;
        more?: boolean;
        entries?: Entry[];
        revision: Revision;
      };
      const last = page.entries?.at(-1);
      if (!isPaged || page.more !== true || last === undefined) return;
      next = { ...next, atRevision: page.revision, after: last.key };
    }
  }

  #watch(range: Range, from: number): void {
    const recordings = this.#sides.map(({ watcher }, index) =>
      record(watcher.watch(range, revisionOf(BigInt(from) + this.#offsets[index]!))),
    );
    this.#watches.push({ range, recordings: [recordings[0]!, recordings[1]!], compared: 0 });
  }

  /** What a consumer does that starts again: goes on behind the last event it has, or some events before that. */
  async #rewatch(index: number, back: number): Promise<void> {
    await this.settle();
    const [{ range, recordings }] = this.#watches.splice(index, 1) as [OpenWatch];
    const changes = recordings[0].events.filter(({ kind }) => kind === 'changes');
    const last = changes.at(-1 - back) as (WatchEvent & { kind: 'changes' }) | undefined;
    for (const recording of recordings) recording.stop();
    const next = last === undefined ? undefined : BigInt(last.revision) - this.#offsets[0] + 1n;
    this.#watch(range, next === undefined ? this.#newest + 1 : Number(next));
    await this.settle();
  }

  async #compact(revision: number): Promise<void> {
    if (!this.#isCut) {
      // A watch that lags behind would be told of the compaction on one side only.
      await this.#mark();
      await this.settle();
    }
    for (const [index, side] of this.#sides.entries()) {
      await side.compact(revisionOf(BigInt(revision) + this.#offsets[index]!));
    }
    this.#compacted = revision;
  }

  /** Writes a key in every range that is watched. */
  async #mark(): Promise<void> {
    const keys = new Set(
      RANGES.map((range) => ('keys' in range ? range.keys[0]! : `${range.prefix}mark`)),
    );
    const writes = [...keys].map((key) => {
      const value = `mark ${this.stepCount}`;
      return { put: underPrefix(this.#prefix, key), value, session: null };
    });
    const batch = { guard: [], txns: [{ compares: [], writes, onConflict: [] }] };
    await this.#transact((store) => store.transact(batch, CALL));
  }

  async #transact(call: Call): Promise<void> {
    const answer = await this.#both('transact', call);
    const { revision } = answer as { revision?: Revision };
    if (revision !== undefined) this.#newest = Number(revision);
  }

  /** Makes a call on both sides; the answers must be the same. Answers the reference's. */
  async #both(kind: string, call: Call): Promise<unknown> {
    const answers = await Promise.all(
      this.#sides.map(async ({ store }, index) => {
        const offset = this.#offsets[index]!;
        const answer = await answerOf(() =>
          call(
            store,
            (condition) => shifted(condition, offset) as typeof condition,
            (revision) => shiftedRevision(revision, offset),
          ),
        );
        return shifted(answer, -offset);
      }),
    );
    const [expected, actual] = answers;
    expect(actual).toEqual(expected);
    this.#count(kind, expected);
    return expected;
  }

  #count(kind: string, answer: unknown): void {
    const add = (what: string): void => {
      this.tally[what] = (this.tally[what] ?? 0) + 1;
    };
    if (typeof answer === 'string') {
      add(`${kind}: ${answer}`);
      return;
    }
    const { kind: outcome = 'done', outcomes = [] } = (answer ?? {}) as {
      kind?: string;
      outcomes?: { kind: string }[];
    };
    add(`${kind}: ${outcome}`);
    for (const one of outcomes) add(`transaction: ${one.kind}`);
    if (new Set(outcomes.map((one) => one.kind)).size > 1) add('transact: mixed');
  }

  #compareWatch(watch: OpenWatch): void {
    const [expected, actual] = watch.recordings.map(({ events, isComplete }, index) => ({
      events: events.slice(watch.compared).map((event) => shifted(event, -this.#offsets[index]!)),
      isComplete,
    })) as [{ events: WatchEvent[] }, unknown];
    expect({ range: watch.range, ...(actual as object) }).toEqual({
      range: watch.range,
      ...expected,
    });
    watch.compared += expected.events.length;
    for (const event of expected.events) this.#count('watch', event);
  }

  async #entries(): Promise<Map<string, Entry>> {
    const [{ store }] = this.#sides;
    const keys = NAMES.map((name) => underPrefix(this.#prefix, name));
    const page = await store.read({ keys }, {}, CALL);
    if (page.kind !== 'page') throw new Error('the present is compacted');
    const entries = page.entries.map((entry) => shifted(entry, -this.#offsets[0]) as Entry);
    return new Map(entries.map((entry) => [entry.key, entry]));
  }

  /** Reads how far the stores are; both must have counted alike. */
  async #follow(): Promise<void> {
    const range = { keys: [`${this.#prefix}none`] };
    const page = (await this.#both('newest', (store) => store.read(range, {}, CALL))) as {
      revision: Revision;
    };
    this.#newest = Number(page.revision);
  }
}

/** The answer, or the name of the error. */
async function answerOf(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (isLeaseholdError(error)) return error.code;
    if (error instanceof InvariantViolation) return 'InvariantViolation';
    throw error;
  }
}

const REVISIONS = new Set(['revision', 'createRevision', 'modRevision']);

/** A copy with `offset` added to every revision in it; an absent key has none. */
function shifted(value: unknown, offset: bigint): unknown {
  if (Array.isArray(value)) return value.map((item) => shifted(item, offset));
  if (typeof value !== 'object' || value === null) return value;
  const isRevisionCompare = 'target' in value && value.target !== 'session';
  return Object.fromEntries(
    Object.entries(value).map(([name, part]: [string, unknown]) => {
      const isRevision = REVISIONS.has(name) || (name === 'equals' && isRevisionCompare);
      return [name, isRevision ? shiftedRevision(part as Revision, offset) : shifted(part, offset)];
    }),
  );
}

function shiftedRevision(revision: Revision, offset: bigint): Revision {
  if (compareDecimals(revision, ABSENT) === 0) return revision;
  return revisionOf(BigInt(revision) + offset);
}
