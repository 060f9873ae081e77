/** Runs one scenario: first the faults, then the calm, then the end; and looks at all of it. */
import { checkRun } from '../checks/run-checks.ts';
import { heal, perform } from './acts.ts';
import { configOf, hasVerdict, quietMs, restMs, settleBoundMs, unowned } from './liveness.ts';
import type { Program } from './program.ts';
import { Progress } from './progress.ts';
import type { SimulationViolation } from './violation.ts';
import type { Happening } from '../checks/time-line.ts';
import type { Scenario } from './scenario.ts';
import { scriptedProgram } from './scripted.ts';
import { World } from './world.ts';

/** How often the acts of a scenario may come round again. */
const REPEATS_MAX = 9;

/** Clocks run this much slow at most. */
const CLOCK_SLACK = 1.02;

/** What came of one run. JSON. */
export interface RunReport {
  readonly seed: number;
  /** Virtual time from beginning to end. */
  readonly tookMs: number;
  /** What happened: entries of the time line, and writes that landed. */
  readonly events: number;
  /** Commits that were accepted. */
  readonly commits: number;
  /** Claims of a split from an owner who had not given it back. */
  readonly takeovers: number;
  /** How often each kind of fault has struck. */
  readonly faults: Readonly<Record<string, number>>;
  readonly violations: readonly SimulationViolation[];
}

/** Everything of a run, for who looks closer. */
export interface Run {
  readonly report: RunReport;
  readonly world: World;
  readonly happenings: readonly Happening[];
}

/** Runs a scenario; a violation is a value, not an error. */
export async function runScenario(
  scenario: Scenario,
  program: (world: World) => Program = scriptedProgram,
): Promise<Run> {
  const world = new World(scenario, program);
  const guard = guardProcess(world);
  try {
    await disturb(world);
    const broken = [...(await settle(world)), ...(await end(world))];
    return reportOf(world, broken);
  } finally {
    guard();
  }
}

/** The part with faults. */
async function disturb(world: World): Promise<void> {
  const { workers, acts, durationMs, faultsMin } = world.scenario;
  workers.forEach(({ startAtMs }, slot) => {
    world.later(startAtMs, () => world.spawn(slot));
  });
  for (let round = 0; round <= REPEATS_MAX; round += 1) {
    for (const act of acts) world.later(act.atMs, () => perform(world, act));
    await world.clock.advance(durationMs);
    if (sumOf(faultsOf(world)) >= faultsMin || hasVerdict(world)) break;
  }
}

/** How often each kind of fault has struck. */
function faultsOf({ struck, processes }: World): Readonly<Record<string, number>> {
  const faults: Record<string, number> = { ...struck };
  for (const { client, answers } of processes) {
    for (const [kind, count] of [
      ...Object.entries(client.struck),
      ...Object.entries(answers.struck),
    ]) {
      faults[kind] = (faults[kind] ?? 0) + count;
    }
  }
  return faults;
}

function sumOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** The calm: everything that can be finished is, in time. */
async function settle(world: World): Promise<SimulationViolation[]> {
  heal(world);
  const progress = new Progress(world);
  const broken = await (world.scenario.finality === 'final'
    ? finish(world, progress)
    : comeToRest(world, progress));
  return [...progress.broken, ...broken];
}

async function finish(world: World, progress: Progress): Promise<SimulationViolation[]> {
  const boundMs = settleBoundMs(world);
  const isDone = (): boolean => {
    progress.look();
    return hasVerdict(world);
  };
  if (await world.clock.until(isDone, boundMs)) return [];
  return [
    { check: 'liveness', text: `no verdict within ${Math.round(boundMs)} ms: ${describe(world)}` },
  ];
}

/** An open plan has no verdict: the fleet must come to rest, with every split in somebody's hands. */
async function comeToRest(world: World, progress: Progress): Promise<SimulationViolation[]> {
  const { store, clock, recorder, scenario } = world;
  const sliceMs = quietMs(scenario);
  const boundMs = settleBoundMs(world) + restMs(scenario);
  const moves = (): number => {
    const { writes } = store.stats;
    return MOVES.reduce((sum, kind) => sum + (writes[kind] ?? 0), 0);
  };
  const startMs = clock.nowMs();
  let before = moves();
  for (let movedAtMs = startMs; clock.nowMs() - movedAtMs < restMs(scenario);) {
    if (clock.nowMs() - startMs > boundMs) {
      const text = `not at rest within ${Math.round(boundMs)} ms: ${describe(world)}`;
      return [{ check: 'liveness', text }];
    }
    await clock.until(() => {
      progress.look();
      return false;
    }, sliceMs);
    if (moves() !== before || unowned(world).length > 0) movedAtMs = clock.nowMs();
    before = moves();
  }
  recorder.note({ kind: 'rests' });
  await clock.advance(sliceMs);
  recorder.note({ kind: 'restIsOver' });
  return [];
}

/** Kinds of keys that are written when ownership moves. */
const MOVES = ['assign', 'leases', 'workers', 'leader'];

/** Everybody leaves; afterwards nothing runs. */
async function end(world: World): Promise<SimulationViolation[]> {
  const { drainDeadlineMs, opTimeoutMs, leaseDurationMs } = configOf(world.scenario);
  for (const process of world.alive()) process.stop();
  const boundMs = (drainDeadlineMs + opTimeoutMs) * CLOCK_SLACK + 1;
  const haveLeft = await world.clock.until(() => world.alive().length === 0, boundMs);
  await world.clock.advance(2 * leaseDurationMs + world.scenario.expiryLagMs);
  const broken: SimulationViolation[] = [];
  if (!haveLeft) broken.push({ check: 'stop', text: `not stopped within ${boundMs} ms` });
  for (const process of world.processes) {
    if (process.state !== 'gone') continue;
    const calls = process.callCount - process.callsWhenLeft;
    const timers = process.clock.pendingTimers - process.sleepers;
    const { openWatches } = process.client;
    if (calls + timers + openWatches === 0) continue;
    broken.push({
      check: 'stop',
      text: `process ${process.number} has left, but: ${calls} calls, ${timers} timers, ${openWatches} watches`,
    });
  }
  for (const kind of ['leases/', 'workers/', 'leader', 'probe/']) {
    for (const { key } of world.store.dump(`${world.keys.root}${kind}`)) {
      broken.push({ check: 'stop', text: `${key} has outlived everybody` });
    }
  }
  return broken;
}

function reportOf(world: World, broken: readonly SimulationViolation[]): Run {
  const { happenings } = world.recorder;
  const history = world.store.history();
  const { drainDeadlineMs, opTimeoutMs, leaseDurationMs, maxAttempts, rebalanceDelayMs } = configOf(
    world.scenario,
  );
  const findings = checkRun({
    history,
    happenings,
    maxAttempts,
    promises: {
      leaseMs: leaseDurationMs,
      stopMs: (drainDeadlineMs + opTimeoutMs) * CLOCK_SLACK + 1,
      rebalanceDelayMs,
    },
  });
  const report: RunReport = {
    seed: world.seed,
    tookMs: Math.round(world.clock.nowMs()),
    events: happenings.length + history.length,
    commits: happenings.filter(({ kind }) => kind === 'accepted').length,
    takeovers: findings.takeovers,
    faults: faultsOf(world),
    violations: [...broken, ...findings.broken],
  };
  return { report, world, happenings };
}

/** Where the job stands, for a message. */
function describe(world: World): string {
  const { root } = world.keys;
  const keys = world.store
    .dump(root)
    .filter(({ key, value }) => !key.includes('/specs/') && !value.includes('"completed"'))
    .map(({ key, value }) => `${key.slice(root.length)} ${value}`);
  const processes = world.processes
    .filter(({ state }) => state !== 'dead')
    .map(
      ({ number, instance, state, handlers }) =>
        `${number} ${instance} ${state} handlers=${handlers}`,
    );
  return [...processes, ...keys].join('\n  ').slice(0, 6_000);
}

/** Puts what nobody catches on the time line, until called. */
function guardProcess(world: World): () => void {
  const take = (error: unknown): void => {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    world.recorder.note({ kind: 'uncaught', process: null, text });
  };
  process.on('unhandledRejection', take);
  process.on('uncaughtException', take);
  return () => {
    process.off('unhandledRejection', take);
    process.off('uncaughtException', take);
  };
}
