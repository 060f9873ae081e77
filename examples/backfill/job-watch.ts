/** Follows a job from outside, by one watch over all its keys from the beginning. */
import type { Store } from '../../src/index.ts';
import { Audit } from './audit.ts';
import { Ledger, type SplitRecord } from './ledger.ts';

type Revision = Parameters<Store['watch']>[1];

/** Where the keys of a job lie. */
export function rootOf(job: string): string {
  return `leasehold/${job}/`;
}

/** Who else wants to know. */
export interface JobListener {
  /** A split was written; the ledger has seen it. */
  readonly splitWritten?: (splitId: string, record: SplitRecord) => void;
  /** Something was written, or vanished. */
  readonly changed?: () => void;
  /** The history cannot be followed any further. */
  readonly gap?: (kind: 'compacted' | 'reset') => void;
}

export class JobWatch {
  readonly ledger = new Ledger();
  readonly audit = new Audit();
  /** Instances that are there, as far as the store knows. */
  readonly present = new Set<string>();
  /** How many splits the plan has; null until it is whole. */
  planned: number | null = null;
  /** The instance that leads; null while none does. */
  leader: string | null = null;
  readonly #root: string;
  readonly #listener: JobListener;
  readonly #revisions = new Map<string, string>();
  #subscription: { unsubscribe(): void } | undefined;

  constructor(job: string, listener: JobListener = {}) {
    this.#root = rootOf(job);
    this.#listener = listener;
  }

  /** Begins at a revision at which the job has no keys yet. */
  start(store: Store, revision: Revision): void {
    this.#subscription = store.watch({ prefix: this.#root }, revision).subscribe({
      next: (event) => {
        if (event.kind === 'changes') {
          for (const { key, modRevision, entry } of event.changes) {
            this.#revisions.set(key, modRevision);
            this.#see(key.slice(this.#root.length), entry?.value ?? null);
          }
        } else if (event.kind === 'compacted' || event.kind === 'reset') {
          this.#listener.gap?.(event.kind);
        }
        this.#listener.changed?.();
      },
    });
  }

  close(): void {
    this.#subscription?.unsubscribe();
  }

  /** Whether these entries, as they were read, have been seen here. */
  hasSeen(entries: readonly { readonly key: string; readonly modRevision: string }[]): boolean {
    return entries.every(
      ({ key, modRevision }) => BigInt(this.#revisions.get(key) ?? -1) >= BigInt(modRevision),
    );
  }

  #see(key: string, value: string | null): void {
    const [kind, name = ''] = key.split('/');
    if (kind === 'splits') {
      const record = value === null ? null : (JSON.parse(value) as SplitRecord);
      this.audit.see(name, record);
      if (record === null) return;
      this.ledger.see(name, record);
      this.#listener.splitWritten?.(name, record);
    } else if (kind === 'plan' && value !== null) {
      const plan = JSON.parse(value) as { sealed: boolean; planned: number };
      if (plan.sealed) this.planned = plan.planned;
    } else if (kind === 'leader') {
      this.leader = value === null ? null : (JSON.parse(value) as { owner: string }).owner;
    } else if (kind === 'workers') {
      if (value === null) this.present.delete(name);
      else this.present.add(name);
    }
  }
}
