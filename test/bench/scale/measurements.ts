/**
 * What one commit, one change of ownership, one join, one plan and rest cost a fleet, against the formulas.
 *
 * W: workers that watch, the one that joins included. A delivery is one changed key told to one watcher. What moved, and
 * whose assignment changed, is read from the store before and after; it is never taken from what is counted.
 */
import { hash32 } from '../../../src/base/hash.ts';
import { jitter } from '../../../src/protocol/timing.ts';
import type { CountName, Counting, ItemKind, ReadKind } from './counted-store.ts';
import {
  LEASE_MS,
  REBALANCE_DELAY_MS,
  RECONCILE_MS,
  type ScaleFleet,
  type ScaleWorker,
} from './fleet.ts';

/** One count against its formula. */
export interface Row {
  readonly what: string;
  readonly counted: number;
  readonly expected: number;
}

/** Renewals come up to 15 % before a third of the lease is over, at random. */
export const RENEWAL_MS_MIN = (LEASE_MS / 3) * 0.85;
const RENEWAL_MS_MEAN = (LEASE_MS / 3 + RENEWAL_MS_MIN) / 2;
/** Keys of the first page of a listing; each page has at most twice as many as the one before. */
const FIRST_PAGE_KEYS = 256;
const PAGE_KEYS = 1_000;
/** Most records of one reading by name. */
const RECORDS_PER_READ = 100;
/** Transactions of one batch, at least. */
const PER_BATCH = 60;
/** Two of the probe, and the announcement. */
const JOIN_BATCHES = 3;
/** What every worker follows: plan, leader, its assignment, presences, leases, parked splits and operators' wishes. */
const RANGES = 7;

/** What happened to the ownership of splits. */
interface Changes {
  readonly counted: Counting;
  /** Splits that went from one worker to another. */
  readonly moved: number;
  /** How many of them each giver gave, and each taker took. */
  readonly givers: readonly number[];
  readonly takers: readonly number[];
  /** Splits that nobody had before. */
  readonly taken: number;
  readonly changedAssignments: number;
}

async function changesOf(fleet: ScaleFleet, act: () => Promise<void>): Promise<Changes> {
  const owners = fleet.owners();
  const assignments = fleet.assignments();
  const counted = fleet.meter.start();
  await act();
  const givers = new Map<string, number>();
  const takers = new Map<string, number>();
  let moved = 0;
  let taken = 0;
  for (const [split, owner] of fleet.owners()) {
    const before = owners.get(split);
    if (before === undefined) taken += 1;
    else if (before !== owner) {
      moved += 1;
      givers.set(before, (givers.get(before) ?? 0) + 1);
      takers.set(owner, (takers.get(owner) ?? 0) + 1);
    }
  }
  const now = fleet.assignments();
  const instances = new Set([...assignments.keys(), ...now.keys()]);
  return {
    counted,
    moved,
    givers: [...givers.values()],
    takers: [...takers.values()],
    taken,
    changedAssignments: [...instances].filter((id) => assignments.get(id) !== now.get(id)).length,
  };
}

/** A plan of `splits`, of which those not stored yet are new: `splits / batch` transactions that nobody is told of. */
export async function measurePlan(fleet: ScaleFleet, splits: number): Promise<Row[]> {
  const fresh = splits - fleet.splits;
  fleet.plannedSplits = splits;
  const { counted, taken } = await changesOf(fleet, () => fleet.replan());
  const watchers = fleet.size;
  return [
    row(counted, 'plan: transactions', 'items.seed', fresh),
    row(counted, 'plan: batches', 'batches.seed', batchesOf(fleet, 'seed', [fresh])),
    sum(counted, 'plan: deliveries of splits', ['deliveries.specs', 'deliveries.splits'], 0),
    row(counted, 'plan: publications', 'items.plan', 1),
    row(counted, 'plan: deliveries of the plan', 'deliveries.plan', watchers),
    row(counted, 'first claims: transactions', 'items.claim', taken),
    row(counted, 'first claims: lease deliveries', 'deliveries.leases', taken * watchers),
  ];
}

/** A run of the planner that finds nothing new writes nothing. */
export async function measureReplan(fleet: ScaleFleet): Promise<Row[]> {
  const counted = fleet.meter.start();
  await fleet.replan();
  return [
    row(counted, 'replan, nothing new: batches', 'calls.transact', 0),
    row(counted, 'replan, nothing new: deliveries', 'deliveries', 0),
  ];
}

/** Everybody commits everything: a share of one write each, and nobody is told. */
export async function measureCommits(fleet: ScaleFleet): Promise<Row[]> {
  const counted = fleet.meter.start();
  const held = await fleet.commitAll();
  const commits = held.reduce((total, count) => total + count, 0);
  return [
    row(counted, 'commits: transactions', 'items.commit', commits),
    row(counted, 'commits: keys', 'keys', commits),
    row(counted, 'commits: batches', 'calls.transact', batchesOf(fleet, 'commit', held)),
    row(counted, 'commits: deliveries', 'deliveries', 0),
  ];
}

/** A worker without room joins: everybody hears of it, it is assigned nothing, and that is all. */
export async function measureEmptyJoin(fleet: ScaleFleet): Promise<Row[]> {
  const counted = fleet.meter.start();
  const leases = fleet.owners().size;
  await fleet.join(1, 0);
  const watchers = fleet.size;
  // The newcomer too: it begins to follow before its presence is there.
  const told = watchers;
  return [
    row(counted, 'join: presence deliveries', 'deliveries.workers', told),
    row(counted, 'join: assignments', 'items.assign', 1),
    row(counted, 'join: assignment deliveries', 'deliveries.assign', 2),
    row(counted, 'join: all deliveries', 'deliveries', told + 2),
    row(counted, 'join: batches', 'calls.transact', JOIN_BATCHES + 1),
    // Two of the probe, one of plan and leader, and what it follows: five ranges of one page, presences and leases.
    readsBut(counted, 'join: reads', 'own', 3 + 5 + listingOf(leases) + listingOf(watchers)),
  ];
}

/** A worker with room joins: each planned move is a mark, a release and a claim, told to everybody. */
export async function measureMoves(fleet: ScaleFleet, maxInFlight: number): Promise<Row[]> {
  const changes = await changesOf(fleet, () => fleet.join(1, maxInFlight));
  const { counted, moved, givers, changedAssignments } = changes;
  const watchers = fleet.size;
  const leases = 3 * moved * watchers;
  const told = watchers;
  const batches =
    batchesOf(fleet, 'assign', [changedAssignments]) +
    batchesOf(fleet, 'mark', givers) +
    batchesOf(fleet, 'end', givers) +
    batchesOf(fleet, 'claim', [moved]);
  return [
    row(counted, 'moves: marks', 'items.mark', moved),
    row(counted, 'moves: releases', 'items.end', moved),
    row(counted, 'moves: claims', 'items.claim', moved),
    row(counted, 'moves: assignments', 'items.assign', changedAssignments),
    row(counted, 'moves: batches', 'calls.transact', JOIN_BATCHES + batches),
    // The new owner reads when named and when freed, the leader when freed.
    reads(counted, 'moves: reads of records', 3 * readsOf(moved)),
    row(counted, 'moves: lease deliveries', 'deliveries.leases', leases),
    row(counted, 'moves: assignment deliveries', 'deliveries.assign', 2 * changedAssignments),
    row(counted, 'moves: presence deliveries', 'deliveries.workers', told),
    row(counted, 'moves: all deliveries', 'deliveries', leases + 2 * changedAssignments + told),
  ];
}

/**
 * The new owner dies before the old ones have handed back: their drains are cancelled, and later they go on. One mark more
 * for each of the two, instead of a release and a claim.
 */
export async function measureCancelledDrains(
  fleet: ScaleFleet,
  maxInFlight: number,
): Promise<Row[]> {
  fleet.holdsOn = true;
  const drains = fleet.meter.start();
  await fleet.join(1, maxInFlight);
  const drained = drains.of('items.mark');
  fleet.crash(fleet.last());
  const { counted, changedAssignments } = await changesOf(fleet, () => afterDeath(fleet));
  fleet.holdsOn = false;
  const resumed = fleet.meter.start();
  const watchers = fleet.size;
  const rows = [
    row(counted, 'cancelled drains: marks', 'items.mark', drained),
    sum(counted, 'cancelled drains: claims and releases', ['items.claim', 'items.end'], 0),
    row(counted, 'cancelled drains: assignments', 'items.assign', changedAssignments),
    row(counted, 'cancelled drains: lease deliveries', 'deliveries.leases', drained * watchers),
    row(
      counted,
      'cancelled drains: assignment deliveries',
      'deliveries.assign',
      2 * changedAssignments - 1,
    ),
  ];
  await fleet.resumeAll();
  return [
    ...rows,
    row(resumed, 'resumed drains: marks', 'items.mark', drained),
    row(resumed, 'resumed drains: all transactions', 'items', drained),
    row(resumed, 'resumed drains: all deliveries', 'deliveries', drained * watchers),
  ];
}

/** A worker dies: its leases go at once, and each split is claimed by another. */
export async function measureTakeover(fleet: ScaleFleet): Promise<Row[]> {
  const lost = fleet.crash(fleet.fullest());
  const changes = await changesOf(fleet, () => afterDeath(fleet));
  const { counted, moved, takers, changedAssignments } = changes;
  const watchers = fleet.size;
  const leases = (lost + moved) * watchers;
  // The record of the dead is deleted, and only the leader hears of it.
  const assignments = 2 * changedAssignments - 1;
  // That it is missing is noted, and the note deleted together with the assignments.
  const batches =
    1 + batchesOf(fleet, 'assign', [changedAssignments + 1]) + batchesOf(fleet, 'claim', takers);
  // Each new owner reads once; the leader when the leases go, and each third of a lease until they are claimed.
  const leaderReads = 1 + Math.floor(REBALANCE_DELAY_MS / (LEASE_MS / 3));
  const ownersReads = takers.reduce((total, count) => total + readsOf(count), 0);
  return [
    row(counted, 'takeover: claims', 'items.claim', moved),
    sum(counted, 'takeover: marks and releases', ['items.mark', 'items.end'], 0),
    row(counted, 'takeover: assignments', 'items.assign', changedAssignments),
    row(counted, 'takeover: batches', 'calls.transact', batches),
    reads(counted, 'takeover: reads of records', ownersReads + leaderReads * readsOf(lost)),
    row(counted, 'takeover: lease deliveries', 'deliveries.leases', leases),
    row(counted, 'takeover: assignment deliveries', 'deliveries.assign', assignments),
    row(counted, 'takeover: presence deliveries', 'deliveries.workers', watchers),
    row(counted, 'takeover: all deliveries', 'deliveries', leases + assignments + watchers),
  ];
}

/** Nobody does anything: renewals, and a look at the own assignment and presence with each. */
export async function measureRest(fleet: ScaleFleet): Promise<Row[]> {
  const restMs = 4 * LEASE_MS;
  const workers = fleet.size;
  const { revision } = fleet;
  const counted = fleet.meter.start();
  await fleet.clock.advance(restMs);
  return [
    // One for each worker, and one for the leader's second session.
    row(counted, 'rest: renewals', 'calls.keepAlive', ((workers + 1) * restMs) / RENEWAL_MS_MEAN),
    row(counted, 'rest: batches', 'calls.transact', 0),
    readsBut(counted, 'rest: other reads', 'own', 0),
    row(counted, 'rest: deliveries', 'deliveries', 0),
    { what: 'rest: revisions', counted: Number(fleet.revision) - Number(revision), expected: 0 },
    row(counted, 'rest: looks at what is its own', 'reads.own', looksIn(restMs, workers)),
  ];
}

/**
 * Everybody asks what was written of what it follows, which is nothing, and of the records of what it holds; the leader of the
 * assignments too.
 */
export async function measureReconcile(fleet: ScaleFleet): Promise<Row[]> {
  const fromMs = fleet.clock.nowMs();
  const counted = fleet.meter.start();
  await fleet.clock.advance(RECONCILE_MS);
  let expected = 0;
  for (const worker of fleet.workers.filter(({ isGone }) => !isGone)) {
    const assignments = worker.id === fleet.leader() ? 1 : 0;
    const records = Math.ceil(worker.held.size / PAGE_KEYS);
    expected += reconcilesOf(worker, fromMs) * (RANGES + records + assignments);
  }
  return [
    readsBut(counted, 'reconcile: reads', 'own', expected),
    row(counted, 'reconcile: looks', 'reads.own', looksIn(RECONCILE_MS, fleet.size)),
  ];
}

/** Each third of a lease, every worker looks at its assignment and its presence. */
function looksIn(durationMs: number, workers: number): number {
  return (workers * durationMs) / (LEASE_MS / 3);
}

/** How often a worker reconciles in one interval from `fromMs` on: each of its periods has a length of its own. */
function reconcilesOf({ id, startedAtMs }: ScaleWorker, fromMs: number): number {
  let count = 0;
  let atMs = startedAtMs;
  for (let round = 1; atMs <= fromMs + RECONCILE_MS; round += 1) {
    if (atMs > fromMs) count += 1;
    atMs += jitter(hash32(1, id), round, RECONCILE_MS);
  }
  return count;
}

/** Moves time on until a dead worker's session has ended, its delay is over, and the fleet is quiet again. */
async function afterDeath(fleet: ScaleFleet): Promise<void> {
  await fleet.clock.advance(LEASE_MS + REBALANCE_DELAY_MS);
  await fleet.quiet();
}

/** Batches for so many transactions of each of some workers, when 60 travel together, or as many as ever did. */
function batchesOf(fleet: ScaleFleet, kind: ItemKind, counts: readonly number[]): number {
  const perBatch = Math.max(PER_BATCH, fleet.meter.perBatchMax(kind));
  return counts.reduce((total, count) => total + Math.ceil(count / perBatch), 0);
}

function readsOf(records: number): number {
  return Math.ceil(records / RECORDS_PER_READ);
}

function listingOf(keys: number): number {
  let pages = 1;
  let limit = FIRST_PAGE_KEYS;
  for (let left = keys - limit; left > 0; left -= limit) {
    limit = Math.min(PAGE_KEYS, 2 * limit);
    pages += 1;
  }
  return pages;
}

function row(counted: Counting, what: string, name: CountName, expected: number): Row {
  return sum(counted, what, [name], expected);
}

/** Reads of records by name, with or without their specs. */
function reads(counted: Counting, what: string, expected: number): Row {
  return sum(counted, what, ['reads.specs', 'reads.splits'], expected);
}

/** All reads but those of one kind. */
function readsBut(counted: Counting, what: string, kind: ReadKind, expected: number): Row {
  return { what, counted: counted.of('calls.read') - counted.of(`reads.${kind}`), expected };
}

function sum(counted: Counting, what: string, names: readonly CountName[], expected: number): Row {
  return { what, counted: names.reduce((total, name) => total + counted.of(name), 0), expected };
}
