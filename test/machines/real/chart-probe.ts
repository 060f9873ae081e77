/**
 * Listens to the charts of a running worker: every event that one of them is handed, where it stood, which transitions it
 * took and where they led. The worker's own feed tells only where a chart moved; this tells also what changed nothing.
 */
import type { AnyEventObject, AnyMachineSnapshot, AnyStateMachine } from 'xstate';
import type { ChartName } from '../../../machines/index.ts';
import { ChartHost, type RunningChart } from '../../../src/coordinator/loop/chart-host.ts';
import { transitionName } from '../drive.ts';

type Running = RunningChart<AnyEventObject>;

/** One event in one chart. */
export interface ChartStep {
  readonly of: StartedChart;
  readonly event: AnyEventObject;
  readonly before: AnyMachineSnapshot;
  readonly after: AnyMachineSnapshot;
  /** Names of the transitions taken; none when nothing is written for the event. */
  readonly taken: readonly string[];
  /** The running chart, as its actions are told of it. */
  readonly self: unknown;
  /** On the clock of the probe. */
  readonly atMs: number;
}

/** One chart that was started. */
export interface StartedChart {
  readonly chart: ChartName;
  readonly id: string;
  readonly input: unknown;
  /** What runs, after what the test changed in it. */
  readonly machine: AnyStateMachine;
  readonly running: Running;
  /** The events of its timers that run; none before its first event. */
  timers(): string[];
}

/** Puts another machine in the place of one that is about to run: the same effects, another chart. */
export type Replace = (chart: ChartName, machine: AnyStateMachine) => AnyStateMachine;

/** Far above what any path needs: a chart that goes round for ever is left where it is. */
const STEPS_MAX = 2_000;

export class ChartProbe {
  readonly started: StartedChart[] = [];
  readonly steps: ChartStep[] = [];
  readonly replace: Replace;
  /** Charts in the middle of a step. */
  readonly stepping = new Set<unknown>();
  /** What the time is. */
  nowMs: () => number = () => 0;

  constructor(replace: Replace = (_, machine) => machine) {
    this.replace = replace;
  }

  /** The chart of this name and id that was started last. */
  find(chart: ChartName, id: string): StartedChart | undefined {
    return this.started.findLast((one) => one.chart === chart && one.id === id);
  }
}

/** Lets `probe` hear of every chart that hosts built within `build` start, then or later. */
export function listening<T>(probe: ChartProbe, build: () => T): T {
  const before = current;
  current = probe;
  try {
    return build();
  } finally {
    current = before;
  }
}

let current: ChartProbe | null = null;
const probes = new WeakMap<ChartHost, ChartProbe>();
const replaced = new WeakMap<AnyStateMachine, AnyStateMachine>();

const startOf = ChartHost.prototype.start;

type Start = (machine: AnyStateMachine, chart: ChartName, id: string, input: unknown) => Running;

function start(this: ChartHost, ...[machine, chart, id, input]: Parameters<Start>) {
  const probe = probes.get(this) ?? current;
  const begin = startOf.bind(this) as unknown as Start;
  if (probe === null) return begin(machine, chart, id, input);
  probes.set(this, probe);
  // Providing actions costs a whole machine: one replacement serves all charts that share the original.
  const changed = replaced.get(machine) ?? probe.replace(chart, machine);
  replaced.set(machine, changed);
  let timers: StartedChart['timers'] = () => [];
  const of = {
    chart,
    id,
    input,
    machine: changed,
    timers: () => timers(),
  } as StartedChart & { running: Running };
  const heard = Object.create(changed) as AnyStateMachine;
  heard.transition = (before, event, scope) => {
    if (probe.steps.length > STEPS_MAX) return before;
    timers = () => timersOf(scope.system);
    const taken = isOurs(event) ? changed.getTransitionData(before, event) : [];
    probe.stepping.add(scope.self);
    const after = changed.transition(before, event, scope);
    probe.stepping.delete(scope.self);
    if (isOurs(event)) {
      probe.steps.push({
        of,
        event,
        before,
        after,
        taken: taken.map(transitionName),
        self: scope.self,
        atMs: probe.nowMs(),
      });
    }
    return after;
  };
  of.running = begin(heard, chart, id, input);
  probe.started.push(of);
  return of.running;
}

ChartHost.prototype.start = start as ChartHost['start'];

/** XState stops actors by an event of its own. */
function isOurs({ type }: AnyEventObject): boolean {
  return !type.startsWith('xstate.');
}

function timersOf(system: { getSnapshot(): unknown }): string[] {
  const { _scheduledEvents } = system.getSnapshot() as {
    _scheduledEvents: Record<string, { event: AnyEventObject }>;
  };
  return Object.values(_scheduledEvents).map(({ event }) => event.type);
}
