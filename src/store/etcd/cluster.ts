/**
 * Which cluster answers, and how far it is: notices when the store is another one or went back in time (R8).
 *
 * A cluster that is set up anew with the same members and token has the same id, so an id alone proves nothing. Revision
 * and raft term of a linearizable answer never lie below what was known when its call was sent. Those of other answers may:
 * a member that lags behind is no reset.
 */
import {
  ABSENT,
  compareDecimals,
  isDecimal,
  maxRevision,
  type Revision,
  revisionOf,
} from '../../base/decimals.ts';

/** The part of etcd's response header that is used. */
export interface Header {
  readonly cluster_id: string;
  readonly revision: string;
  readonly raft_term: string;
}

/** What was known when a call was sent. */
export interface Mark {
  readonly generation: number;
  readonly revision: Revision;
  readonly term: string;
}

const UNKNOWN = '0';

export class Cluster {
  readonly #onReset: () => void;
  #id = '';
  #generation = 0;
  #revision: Revision = ABSENT;
  #term = UNKNOWN;

  constructor(onReset: () => void) {
    this.#onReset = onReset;
  }

  /** Empty before the first answer. */
  get id(): string {
    return this.#id;
  }

  /** The highest revision seen; `'0'` before the first answer. */
  get revision(): Revision {
    return this.#revision;
  }

  /** Remembers what is known, for a call that is about to be sent. */
  mark(): Mark {
    return { generation: this.#generation, revision: this.#revision, term: this.#term };
  }

  /**
   * Judges the header of an answer to a call sent at `mark`.
   *
   * @returns False when it proves a reset: everybody was told, and what is known begins anew with this header.
   */
  check(header: Header | null, mark: Mark, isLinearizable: boolean): boolean {
    // Sent before a reset was noticed: the answer belongs to neither side.
    if (header === null || mark.generation !== this.#generation) return true;
    // Nested answers and those of proxies leave it out.
    const hasId = header.cluster_id !== UNKNOWN && header.cluster_id !== '';
    const isOther = hasId && this.#id !== '' && header.cluster_id !== this.#id;
    const revision = revisionOf(isDecimal(header.revision) ? header.revision : UNKNOWN);
    const term = isDecimal(header.raft_term) ? header.raft_term : UNKNOWN;
    const isBehind =
      isLinearizable &&
      (compareDecimals(revision, mark.revision) < 0 || compareDecimals(term, mark.term) < 0);
    if (isOther || isBehind) {
      this.#generation += 1;
      this.#id = hasId ? header.cluster_id : '';
      this.#revision = revision;
      this.#term = term;
      this.#onReset();
      return false;
    }
    if (hasId) this.#id = header.cluster_id;
    this.#revision = maxRevision(this.#revision, revision);
    if (compareDecimals(term, this.#term) > 0) this.#term = term;
    return true;
  }
}
