/**
 * Measures Leasehold on a throw-away etcd that writes to the disk: fenced commits, claims, seeding, rest, handover, takeover, a
 * cold start; on servers of their own, large states and the loss of the leading member. `--quick` takes smaller fleets and
 * plans, `--only=<name>` one figure.
 *
 * Rates hang on the machine; what counts is their ratio to what etcd's client does by itself, measured in turn.
 */
import { startEtcd } from '../etcd/support/server.ts';
import { type CommitCase, measureCommits } from './etcd/commits.ts';
import {
  measureClaims,
  measureIdle,
  measureSeeding,
  measureTakeover,
  runVictims,
} from './etcd/fleets.ts';
import { measureColdStart } from './etcd/cold-start.ts';
import { measureFailover } from './etcd/failover.ts';
import { measureHandover, runMover } from './etcd/handover.ts';
import { measureLarge, runLarge } from './etcd/large.ts';
import { measureResting, runResting } from './etcd/resting.ts';

/** Runs all and prints: one JSON document with `--json`, else tables. Returns the exit code. */
export async function run(
  flags: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  const [first, endpoint, kind] = flags;
  if (first === '--victims' && endpoint !== undefined) {
    await runVictims(endpoint, kind === 'leading' ? kind : 'plain');
    return 0;
  }
  if (first === '--mover' && endpoint !== undefined && kind !== undefined) {
    await runMover(endpoint, kind);
    return 0;
  }
  if (first === '--resting' && endpoint !== undefined) {
    const [workers, splits, forMs] = flags.slice(2).map(Number) as [number, number, number];
    await runResting(endpoint, workers, splits, forMs);
    return 0;
  }
  if (first === '--large' && endpoint !== undefined) {
    await runLarge(endpoint);
    return 0;
  }
  const only = flags.find((flag) => flag.startsWith('--only='))?.slice('--only='.length);
  const server = await startEtcd({ unsafeNoFsync: false });
  try {
    const figures = await measure(server.endpoint, newestOf(server), {
      only,
      isQuick: flags.includes('--quick'),
    });
    if (flags.includes('--json')) print(JSON.stringify(documentOf(figures)));
    else printTables(figures, print);
  } finally {
    await server.stop();
  }
  return 0;
}

function newestOf({ gateway }: Awaited<ReturnType<typeof startEtcd>>): () => Promise<bigint> {
  return async () => (await gateway.position()).revision;
}

type Figures = Awaited<ReturnType<typeof measure>>;

async function measure(
  endpoint: string,
  newestRevision: () => Promise<bigint>,
  { only, isQuick }: { only: string | undefined; isQuick: boolean },
) {
  const one = async <Figure>(name: string, make: () => Promise<Figure>): Promise<Figure | null> =>
    only === undefined || only === name ? make() : null;
  return {
    cases: (await one('cases', () => measureCommits(endpoint))) ?? [],
    claims: await one('claims', () => measureClaims(endpoint)),
    seeding: await one('seeding', () => measureSeeding(endpoint)),
    handover: await one('handover', () => measureHandover(endpoint)),
    takeover: await one('takeover', () => measureTakeover(endpoint)),
    idle: await one('idle', async () => ({
      ...(await measureIdle(endpoint, newestRevision)),
      ...(await measureResting(endpoint, isQuick)),
    })),
    coldStart: await one('coldStart', () => measureColdStart(endpoint)),
    large: await one('large', () => measureLarge(isQuick)),
    failover: await one('failover', () => measureFailover(isQuick)),
  };
}

function documentOf(figures: Figures): unknown {
  const { cases, claims, seeding, idle, handover, takeover, coldStart, large, failover } = figures;
  return {
    cases,
    claims: claims && { splits: claims.splits, roundTrips: claims.roundTrips },
    seeding: seeding && { splits: seeding.splits, transactions: seeding.transactions },
    idle: idle && {
      revisions: idle.revisions,
      requestsPerSecond: idle.requestsPerSecond,
      workers: idle.workers,
      splits: idle.splits,
      bytesPerSecond: idle.bytesPerSecond,
      workerCpu: idle.workerCpu,
    },
    handover: handover && { p50Ms: handover.p50Ms, p99Ms: handover.p99Ms },
    takeover: takeover && { leases: takeover.leases, leaderLeases: takeover.leaderLeases },
    coldStart: coldStart && { roundTrips: coldStart.roundTrips, ms: coldStart.ms },
    large: large ?? [],
    failover,
  };
}

const COLUMNS: readonly (readonly [title: string, field: keyof CommitCase])[] = [
  ['in flight', 'inFlight'],
  ['commits/s', 'ours'],
  ['single/s', 'single'],
  ['nested/s', 'nested'],
  ['over single', 'overSingle'],
  ['over nested', 'overNested'],
  ['median ms', 'p50Ms'],
  ['single ms', 'singleP50Ms'],
];

function printTables(figures: Figures, print: (line: string) => void): void {
  const row = (cells: readonly (string | number)[]): string =>
    cells.map((cell) => cell.toLocaleString('en-US').padStart(12)).join('');
  if (figures.cases.length > 0) {
    print(row(COLUMNS.map(([title]) => title)));
    for (const one of figures.cases) print(row(COLUMNS.map(([, field]) => one[field])));
  }
  for (const [name, figure] of Object.entries(figures)) {
    if (name === 'cases' || figure === null) continue;
    for (const one of [figure].flat()) {
      const fields = Object.entries(one).map(([field, value]) => `${field} ${value}`);
      print(`${name.padEnd(10)}${fields.join(', ')}`);
    }
  }
}
