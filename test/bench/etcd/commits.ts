/** Fenced commits per second: through the public API, as transactions of one key, and as a raw loop of nested ones. */
import { noop } from 'cockatiel';
import { Etcd3, type ITxnRequest, type ITxnResponse } from 'etcd3';
import type { Grant } from '../../../src/index.ts';
import { quantile, rounded, startWorker } from './support.ts';

const IN_FLIGHT = [1, 16, 64, 256, 1_000];
const ROUNDS = 3;
const ROUND_MS = 800;
const WARM_UP_MS = 600;
/** The raw loop: the best that one connection does. */
const NESTED_TXNS = 64;
const NESTED_IN_FLIGHT = 4;
const VALUE_BYTES = 150;

export interface CommitCase {
  readonly inFlight: number;
  readonly ours: number;
  readonly single: number;
  readonly nested: number;
  readonly overSingle: number;
  readonly overNested: number;
  readonly p50Ms: number;
  readonly singleP50Ms: number;
}

/** One commit of one place in the line; answers how many commits that was. */
type Commit = (place: number) => Promise<number>;

interface Run {
  commits: number;
  tookMs: number;
  readonly latenciesMs: number[];
}

/** The three kinds take turns, so that all meet the same machine. */
export async function measureCommits(endpoint: string): Promise<CommitCase[]> {
  const { worker, stop } = startWorker({
    endpoint,
    job: 'commits',
    instanceId: 'bench',
    splits: Math.max(...IN_FLIGHT),
    config: { maxInFlight: 4_096 },
  });
  const grants: Grant[] = [];
  for await (const grant of worker.grants()) {
    grants.push(grant);
    if (grants.length === Math.max(...IN_FLIGHT)) break;
  }
  const client = new Etcd3({ hosts: endpoint, faultHandling: { host: () => noop, global: noop } });
  const kinds = { ours: ourCommits(grants), single: single(client), nested: nested(client) };
  const cases: CommitCase[] = [];
  try {
    for (const inFlight of IN_FLIGHT) {
      const runs = { ours: emptyRun(), single: emptyRun(), nested: emptyRun() };
      for (let round = 0; round <= ROUNDS; round += 1) {
        for (const kind of ['ours', 'single', 'nested'] as const) {
          const places = kind === 'nested' ? NESTED_IN_FLIGHT : inFlight;
          const isWarmUp = round === 0;
          const run = isWarmUp ? emptyRun() : runs[kind];
          await measure(run, kinds[kind], places, isWarmUp ? WARM_UP_MS : ROUND_MS);
        }
      }
      cases.push(caseOf(inFlight, runs));
    }
  } finally {
    client.close();
    // Otherwise the worker would wait for its handlers as long as it may.
    await Promise.all(grants.map((grant) => grant.release()));
    await stop();
  }
  return cases;
}

function caseOf(inFlight: number, runs: { ours: Run; single: Run; nested: Run }): CommitCase {
  const perSecond = ({ commits, tookMs }: Run): number => (commits / tookMs) * 1_000;
  const ours = perSecond(runs.ours);
  return {
    inFlight,
    ours: Math.round(ours),
    single: Math.round(perSecond(runs.single)),
    nested: Math.round(perSecond(runs.nested)),
    overSingle: rounded(ours / perSecond(runs.single)),
    overNested: rounded(ours / perSecond(runs.nested)),
    p50Ms: rounded(quantile(runs.ours.latenciesMs, 0.5), 3),
    singleP50Ms: rounded(quantile(runs.single.latenciesMs, 0.5), 3),
  };
}

function emptyRun(): Run {
  return { commits: 0, tookMs: 0, latenciesMs: [] };
}

async function measure(run: Run, commit: Commit, places: number, forMs: number): Promise<void> {
  globalThis.gc?.();
  const startMs = performance.now();
  const endMs = startMs + forMs;
  await Promise.all(
    Array.from({ length: places }, async (_, place) => {
      let sentMs = performance.now();
      while (sentMs < endMs) {
        const commits = await commit(place);
        run.commits += commits;
        const answeredMs = performance.now();
        run.latenciesMs.push(answeredMs - sentMs);
        sentMs = answeredMs;
      }
    }),
  );
  run.tookMs += performance.now() - startMs;
}

function ourCommits(grants: readonly Grant[]): Commit {
  let watermark = 0;
  return async (place) => {
    watermark += 1;
    await grants[place]!.commit({ watermark });
    return 1;
  };
}

function single(client: Etcd3): Commit {
  const keys = new FencedKeys('single');
  return async (place) => {
    keys.answered(place, await client.kv.txn(keys.request(place)));
    return 1;
  };
}

function nested(client: Etcd3): Commit {
  const keys = new FencedKeys('nested');
  return async (batch) => {
    const places = Array.from({ length: NESTED_TXNS }, (_, index) => batch * NESTED_TXNS + index);
    const success = places.map((place) => ({ request_txn: keys.request(place) }));
    const answer = await client.kv.txn({ compare: [], success, failure: [] });
    for (const [index, place] of places.entries()) {
      keys.answered(place, { ...answer.responses[index]!.response_txn, header: answer.header });
    }
    return places.length;
  };
}

/** Keys that are each written under a compare with the revision written last. */
class FencedKeys {
  readonly #prefix: string;
  readonly #value = Buffer.alloc(VALUE_BYTES, 'v');
  readonly #keys: { readonly key: Buffer; revision: string }[] = [];

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  request(place: number): ITxnRequest {
    const { key, revision } = (this.#keys[place] ??= {
      key: Buffer.from(`${this.#prefix}/splits/split-${place}`),
      revision: '0',
    });
    return {
      compare: [{ key, result: 'Equal', target: 'Mod', mod_revision: revision }],
      success: [{ request_put: { key, value: this.#value } }],
      failure: [{ request_range: { key } }],
    };
  }

  answered(place: number, { succeeded, header }: ITxnResponse): void {
    if (!succeeded) throw new Error('the bench was fenced: somebody else writes to its keys');
    this.#keys[place]!.revision = header.revision;
  }
}
