/**
 * A leader sets nothing of its own aside as long as it may take it back: its session may end while it goes on leading, and
 * then it is away like any other worker (R26, R28).
 */
import type { PresenceRecord, SplitRecord } from '../../records/records.ts';
import type { TimedVersion } from './key-states.ts';
import { type Broken, broken, type Promises } from './process-checks.ts';

/** Clocks go this much fast at most. */
const CLOCK_SLACK = 0.95;

export class SetAsideChecker {
  readonly #promises: Promises;
  /** Presences that are gone: whose, and since when. */
  readonly #vanished = new Map<string, { readonly nonce: string; readonly atMs: number }>();
  /** The revision at which the lease of a split went. */
  readonly #unleased = new Map<string, string>();

  constructor(promises: Promises) {
    this.#promises = promises;
  }

  /** What is wrong with one version. */
  *read(version: TimedVersion): Generator<Broken> {
    const { kind, id, before, after, atMs, entry } = version;
    if (kind === 'workers') {
      const nonce = (before?.record as PresenceRecord | undefined)?.nonce;
      if (after === undefined && nonce !== undefined) this.#vanished.set(id, { nonce, atMs });
      else this.#vanished.delete(id);
    } else if (kind === 'leases') {
      if (after === undefined) this.#unleased.set(id, entry.revision);
      else this.#unleased.delete(id);
    } else if (kind === 'splits') yield* this.#readSplit(version);
  }

  /** Another store: nobody has vanished from it yet. */
  replaced(): void {
    this.#vanished.clear();
    this.#unleased.clear();
  }

  *#readSplit({ id, before, after, atMs, entry }: TimedVersion): Iterable<Broken> {
    const owned = before?.record as SplitRecord | undefined;
    const record = after?.record as SplitRecord | undefined;
    if (record?.status !== 'quarantined' || owned?.status !== 'runnable') return;
    if (owned.owner === null || owned.nonce !== after!.stamp.nonce) return;
    // With its lease it is the owner's own failure; without one, the leader's finding (T12).
    const unleasedAt = this.#unleased.get(id);
    if (unleasedAt === undefined || unleasedAt === entry.revision) return;
    const vanished = this.#vanished.get(owned.owner);
    if (vanished?.nonce !== owned.nonce) return;
    const awayMs = atMs - vanished.atMs;
    if (awayMs >= this.#promises.rebalanceDelayMs * CLOCK_SLACK) return;
    yield broken(
      'set aside',
      `${owned.owner} leads and set its own ${id} aside, ${Math.round(awayMs)} ms after its session ended`,
    );
  }
}
