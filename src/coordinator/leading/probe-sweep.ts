/**
 * Removes what start-up probes of version 0.1.0 left behind: their keys hung on no session. One that has not changed for ten
 * minutes belongs to no start that is under way; it is deleted at the revision that was seen (R47).
 */
import type { Revision } from '../../base/decimals.ts';
import { putTxn } from '../../protocol/transactions.ts';
import { KEY_PREFIXES } from '../../records/keys.ts';
import type { Key } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import type { Term } from './term.ts';

const UNTOUCHED_MS = 10 * 60 * 1000;
/** Looked at in one go; the rest has its turn later. */
const KEYS_MAX = 200;

interface Sight {
  readonly revision: Revision;
  readonly sinceMs: number;
}

export class ProbeSweep {
  readonly #core: Core;
  readonly #term: Term;
  #seen = new Map<Key, Sight>();

  constructor(core: Core, term: Term) {
    this.#core = core;
    this.#term = term;
  }

  /** Looks once; what is to be removed is removed. A look that fails is made up for by the next one. */
  run(): void {
    const { leaderGate: gate, keys, mailbox } = this.#core;
    const range = { prefix: keys.root + KEY_PREFIXES.probe };
    gate.read(range, { keysOnly: true, limit: KEYS_MAX }).then(
      (page) => {
        mailbox.post(() => {
          if (page.kind === 'page' && !this.#term.isOver) this.#look(page.entries);
        });
      },
      () => undefined,
    );
  }

  #look(entries: readonly { key: Key; modRevision: Revision; session: string | null }[]): void {
    const nowMs = this.#core.clock.nowMs();
    const before = this.#seen;
    this.#seen = new Map();
    for (const { key, modRevision, session } of entries) {
      if (session !== null) continue;
      const known = before.get(key);
      const sinceMs = known?.revision === modRevision ? known.sinceMs : nowMs;
      if (nowMs - sinceMs < UNTOUCHED_MS) {
        this.#seen.set(key, { revision: modRevision, sinceMs });
        continue;
      }
      void this.#term.write('sweep', () => putTxn(key, null, { equals: modRevision }));
    }
  }
}
