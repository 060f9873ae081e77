/**
 * Which cluster answers, and how far it is: notices when the store is another one or went back in time (R8), and when the
 * endpoints belong to several.
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
import { LeaseholdError } from '../../base/errors.ts';

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

/** Which cluster a member belongs to. */
export interface Sighting {
  readonly endpoint: string;
  readonly clusterId: string;
}

export interface ClusterListener {
  /** It is known who answers, for the first time or after a reset. */
  readonly onKnown: (sighting: Sighting) => void;
  /** The store is another one, or went back in time. */
  readonly onReset: () => void;
  /** Nothing is of use any more. */
  readonly onMixed: (error: LeaseholdError) => void;
  /** Asks the other endpoints now; tells of one that belongs to another cluster than this one, if there is any. */
  readonly findRival: (sighting: Sighting) => Promise<Sighting | undefined>;
}

const UNKNOWN = '0';

export class Cluster {
  readonly #listener: ClusterListener;
  #mixed: LeaseholdError | undefined;
  /** The question to the other endpoints, while it is open. */
  #asking: Promise<void> | undefined;
  #id = '';
  #generation = 0;
  #revision: Revision = ABSENT;
  #term = UNKNOWN;

  constructor(listener: ClusterListener) {
    this.#listener = listener;
  }

  /** @throws `E_CLUSTERS_MIXED` once the endpoints are known to belong to several clusters. */
  assertOne(): void {
    if (this.#mixed !== undefined) throw this.#mixed;
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
   * When another cluster answers, that is a reset, unless the one that was known still lives at another endpoint: then the
   * endpoints are mixed up. The others are asked first, which takes as long as `findRival` does.
   *
   * @returns False when it proves a reset: everybody was told, and what is known begins anew with this header.
   * @throws `E_CLUSTERS_MIXED`.
   */
  check(answer: Answer): boolean | Promise<boolean> {
    this.assertOne();
    const { header, mark, isLinearizable, endpoint } = answer;
    // Sent before a reset was noticed: the answer belongs to neither side.
    if (header === null || mark.generation !== this.#generation) return true;
    // Nested answers and those of proxies leave it out.
    const hasId = header.cluster_id !== UNKNOWN && header.cluster_id !== '';
    const clusterId = hasId ? header.cluster_id : '';
    const revision = revisionOf(isDecimal(header.revision) ? header.revision : UNKNOWN);
    const term = isDecimal(header.raft_term) ? header.raft_term : UNKNOWN;
    if (hasId && this.#id !== '' && clusterId !== this.#id) {
      return this.#replace({ endpoint, clusterId }, mark, { revision, term });
    }
    const isBehind =
      isLinearizable &&
      (compareDecimals(revision, mark.revision) < 0 || compareDecimals(term, mark.term) < 0);
    if (isBehind) {
      this.#begin({ endpoint, clusterId }, { revision, term });
      return false;
    }
    const isFirst = hasId && this.#id === '';
    if (hasId) this.#id = clusterId;
    this.#revision = maxRevision(this.#revision, revision);
    if (compareDecimals(term, this.#term) > 0) this.#term = term;
    if (isFirst) this.#listener.onKnown({ endpoint, clusterId });
    return true;
  }

  /** A member was seen that belongs to this cluster: if another one belongs to a different one now, they are mixed up. */
  async confirm(sighting: Sighting): Promise<void> {
    const rival = await this.#listener.findRival(sighting);
    if (rival === undefined || this.#mixed !== undefined) return;
    this.#mixed = mixed(rival, sighting);
    this.#listener.onMixed(this.#mixed);
  }

  async #replace(sighting: Sighting, mark: Mark, position: Position): Promise<boolean> {
    this.#asking ??= this.confirm(sighting).finally(() => {
      this.#asking = undefined;
    });
    await this.#asking;
    this.assertOne();
    if (mark.generation === this.#generation) this.#begin(sighting, position);
    return false;
  }

  #begin(sighting: Sighting, { revision, term }: Position): void {
    this.#generation += 1;
    this.#id = sighting.clusterId;
    this.#revision = revision;
    this.#term = term;
    this.#listener.onReset();
    if (this.#id !== '') this.#listener.onKnown(sighting);
  }
}

/** An answer, and who gave it. */
export interface Answer {
  readonly header: Header | null;
  readonly endpoint: string;
  /** When its call was sent. */
  readonly mark: Mark;
  readonly isLinearizable: boolean;
}

interface Position {
  readonly revision: Revision;
  readonly term: string;
}

function mixed(...sightings: readonly [Sighting, Sighting]): LeaseholdError {
  const [one, other] = sightings.map(
    ({ endpoint, clusterId }) => `${endpoint} belongs to cluster ${clusterId}`,
  );
  return new LeaseholdError(
    'E_CLUSTERS_MIXED',
    `the endpoints belong to different clusters: ${one}, ${other}. List the members of one cluster only`,
    { details: { members: sightings } },
  );
}
