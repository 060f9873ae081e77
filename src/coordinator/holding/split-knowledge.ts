/** What a worker knows of one split's record, and whether it may be decided on. */
import { ABSENT, compareDecimals, type Revision } from '../../base/decimals.ts';
import type { SpecRecord, SplitRecord } from '../../records/records.ts';

/** How the record is known; one of these at a time. */
export type Knowing =
  /** Never read, or something happened to the split since: it must be read before it is decided on. */
  | { readonly kind: 'outdated' }
  /** Being read; of several readings on their way the newest counts. */
  | { readonly kind: 'reading'; readonly by: object }
  | { readonly kind: 'known' }
  /** Cannot be worked on here: the split is left alone and blocks the verdict (R42). */
  | { readonly kind: 'unreadable'; readonly reason: string };

const OUTDATED: Knowing = { kind: 'outdated' };
const KNOWN: Knowing = { kind: 'known' };

export class SplitKnowledge {
  /** The record at `revision`; null until it was read. */
  record: SplitRecord | null = null;
  revision: Revision = ABSENT;
  spec: SpecRecord | null = null;
  /** Monotonic time of the first reading. */
  readAtMs = 0;
  #knowing: Knowing = OUTDATED;

  /** True when it must be read. */
  get isOutdated(): boolean {
    return this.#knowing.kind === 'outdated';
  }

  get isBeingRead(): boolean {
    return this.#knowing.kind === 'reading';
  }

  /** True while it may be decided on. */
  get isKnown(): boolean {
    return this.#knowing.kind === 'known';
  }

  /** True until it was read for the first time, or again. */
  get isAwaited(): boolean {
    return this.#knowing.kind === 'outdated' || this.#knowing.kind === 'reading';
  }

  /** Why the split cannot be worked on here; null when it can. */
  get problem(): string | null {
    return this.#knowing.kind === 'unreadable' ? this.#knowing.reason : null;
  }

  /** Something happened to the split: what is known may be old. */
  outdate(): void {
    this.#knowing = OUTDATED;
  }

  /** It is being read; what an older reading answers is ignored. */
  reads(by: object): void {
    this.#knowing = { kind: 'reading', by };
  }

  isReadBy(by: object): boolean {
    return this.#knowing.kind === 'reading' && this.#knowing.by === by;
  }

  /** Takes in what a reading or a conflict found, unless something newer is known. */
  found(record: SplitRecord, revision: Revision, nowMs: number): void {
    this.#knowing = KNOWN;
    if (this.record !== null && compareDecimals(revision, this.revision) < 0) return;
    if (this.record === null) this.readAtMs = nowMs;
    this.record = record;
    this.revision = revision;
  }

  /** Takes in what this worker wrote itself, or may write on. */
  wrote(record: SplitRecord, revision: Revision): void {
    this.record = record;
    this.revision = revision;
  }

  /** It cannot be worked on here. */
  fails(reason: string): void {
    this.#knowing = { kind: 'unreadable', reason };
  }
}
