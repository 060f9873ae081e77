/** What the generated paths must show: every transition taken, every other event listed, every timer accounted for. */
import {
  type AnyEventObject,
  type AnyMachineSnapshot,
  initialTransition,
  transition,
} from 'xstate';
import { nameOf } from '../../machines/diagrams/walk.ts';
import type { Chart, ChartName } from '../../machines/index.ts';
import { CASES } from './cases.ts';
import { drive, type Driven, type Recorder } from './drive.ts';
import { explore, keyOf, type Reached } from './explore.ts';

/** The timers that run in a state: those that must, and those that may besides. */
type Timers = (snapshot: AnyMachineSnapshot) => {
  readonly must: readonly string[];
  readonly may?: readonly string[];
};

const TIMERS: Readonly<Record<ChartName, Timers>> = {
  tenancy: (snapshot) => ({
    must: isIn(snapshot, 'held.draining', 'held.cancelledDrain') ? ['drain.expired'] : [],
  }),
  leader: (snapshot) => ({
    must: [
      ...(isIn(snapshot, 'leading.governing.balancing.dirty') ? ['balance.due'] : []),
      ...(isIn(snapshot, 'leading.governing.planning.idle') ? ['plan.due'] : []),
      ...(isIn(snapshot, 'following.vacant') ? ['candidacy.due'] : []),
      ...(isIn(snapshot, 'following.resting') ? ['rest.over'] : []),
    ],
    may: isIn(snapshot, 'leading.governing.planning.enumerating') ? ['planner.retry'] : [],
  }),
  presence: (snapshot) => ({
    must: isIn(snapshot, 'rejoining.barred') ? ['rejoin.due'] : [],
    may: isIn(
      snapshot,
      'probing',
      'joining',
      'announcing.putting',
      'present.updating',
      'rejoining.joining',
      'rejoining.putting',
    )
      ? ['step.retry']
      : [],
  }),
  session: (snapshot) => ({
    must: isIn(snapshot, 'open.kept') ? ['renewal.due'] : [],
    may: isIn(snapshot, 'open.late')
      ? ['renewal.due']
      : isIn(snapshot, 'opening')
        ? ['opening.due']
        : [],
  }),
  departure: (snapshot) => ({
    must: [
      ...(isIn(snapshot, 'draining') ? ['drain.expired'] : []),
      ...(isIn(snapshot, 'settling') ? ['settling.expired'] : []),
      ...(isIn(snapshot, 'leaving') ? ['goodbye.expired'] : []),
      ...(isIn(snapshot, 'closing') ? ['closing.expired'] : []),
    ],
  }),
  follow: (snapshot) => ({ must: isIn(snapshot, 'pausing') ? ['listing.due'] : [] }),
  link: (snapshot) => ({
    must: [
      ...(isIn(snapshot, 'faltering') ? ['silence.over'] : []),
      ...(isIn(snapshot, 'denied') ? ['patience.over'] : []),
    ],
  }),
  peer: (snapshot) => ({ must: isIn(snapshot, 'withheld') ? ['delay.elapsed'] : [] }),
  writing: (snapshot) => ({ must: [], may: isIn(snapshot, 'settling') ? ['resend.due'] : [] }),
};

function isIn(snapshot: AnyMachineSnapshot, ...states: string[]): boolean {
  return activeIn(snapshot).some((name) => states.includes(name));
}

/** The names of all active states. */
export function activeIn(snapshot: AnyMachineSnapshot): string[] {
  return snapshot._nodes.map(nameOf);
}

/** One input of a chart with all that can be reached from it. */
export interface Explored {
  readonly input: unknown;
  readonly reached: readonly Reached[];
}

export function exploredFrom(chart: Chart): Explored[] {
  const { inputs, events } = CASES[chart.name];
  return [chart.exampleInput, ...inputs].map((input) => ({
    input,
    reached: explore(chart.machine, input, events),
  }));
}

/** Events that a state neither takes nor lists. */
export function unlistedIn(chart: Chart, explored: readonly Explored[]): string[] {
  const missing = explored.flatMap(({ reached }) =>
    reached.flatMap(({ snapshot, unhandled }) => {
      const active = activeIn(snapshot);
      const isListed = ({ type }: AnyEventObject): boolean =>
        chart.ignores.some(
          ({ event, states }) =>
            (event === '*' || event === type) && states.some((state) => active.includes(state)),
        );
      return unhandled
        .filter((event) => !isListed(event))
        .map(({ type }) => `${type} in ${active.filter((name) => name !== '').join(' ')}`);
    }),
  );
  return [...new Set(missing)];
}

/** Pairs of an event and a state in the table of ignored events that no reachable state needs. */
export function needlessIn(chart: Chart, explored: readonly Explored[]): string[] {
  const needed = new Set(
    explored.flatMap(({ reached }) =>
      reached.flatMap(({ snapshot, unhandled }) =>
        activeIn(snapshot).flatMap((state) => [
          ...unhandled.map(({ type }) => `${type} in ${state}`),
          ...(unhandled.length > 0 ? [`* in ${state}`] : []),
        ]),
      ),
    ),
  );
  return chart.ignores
    .flatMap(({ event, states }) => states.map((state) => `${event} in ${state}`))
    .filter((pair) => !needed.has(pair));
}

export interface Run {
  /** Names of the transitions that were taken. */
  readonly taken: ReadonlySet<string>;
  /** Where the running chart did something else than it was reckoned to do. */
  readonly faults: readonly string[];
  readonly steps: number;
}

/**
 * Takes every event in every reachable state, on real actors.
 *
 * A walk goes the shortest way to a state with something left to take, and from there on as long as there is something.
 * A timer's event comes from the timer where it runs, and from outside where it does not, as an event that had fired
 * just before it was disarmed. After a fault the walk and its goal are given up.
 */
export async function runAll(
  chart: Chart,
  recorder: Recorder,
  { input, reached }: Explored,
): Promise<Run> {
  const taken = new Set<string>();
  const faults: string[] = [];
  const left = new Map(
    reached.map((one) => [keyOf(one.snapshot), { ...one, todo: [...one.enabled], isNew: true }]),
  );
  let steps = 0;
  for (const goal of left.values()) {
    while (goal.isNew || goal.todo.length > 0) {
      const walk = new Walk(
        chart,
        drive(recorder, input, (name) => taken.add(name)),
        input,
      );
      for (const event of goal.path) await walk.take(event);
      for (let here = left.get(walk.key); here !== undefined; here = left.get(walk.key)) {
        if (here.isNew) walk.stir(here.unhandled);
        here.isNew = false;
        const next = here.todo.pop();
        if (next === undefined || walk.fault !== undefined) break;
        await walk.take(next);
      }
      steps += walk.way.length;
      if (walk.fault === undefined) continue;
      faults.push(walk.fault);
      break;
    }
  }
  return { taken, faults, steps };
}

/** An actor under way, beside what the pure machine says of the same events. */
class Walk {
  readonly #chart: Chart;
  readonly #driven: Driven;
  #expected: AnyMachineSnapshot;
  readonly way: string[] = [];
  fault: string | undefined;

  constructor(chart: Chart, driven: Driven, input: unknown) {
    this.#chart = chart;
    this.#driven = driven;
    this.#expected = initialTransition(chart.machine, input as never)[0];
  }

  get key(): string {
    return keyOf(this.#expected);
  }

  async take(event: AnyEventObject): Promise<void> {
    if (this.fault !== undefined) return;
    this.way.push(event.type);
    this.#expected = transition(this.#chart.machine, this.#expected, event)[0];
    await this.#driven.fire(event);
    this.#note(differenceOf(this.#chart.name, this.#driven, this.#expected));
  }

  /** Sends what must change nothing. */
  stir(events: readonly AnyEventObject[]): void {
    for (const event of events) this.#note(stirredBy(event, this.#driven));
  }

  #note(wrong: string): void {
    if (wrong !== '') this.fault ??= `${this.way.slice(-12).join(' > ')}: ${wrong}`;
  }
}

/** An event that nothing is written for changes nothing, asks for nothing and touches no timer. */
function stirredBy(event: AnyEventObject, driven: Driven): string {
  const at = driven.snapshot;
  // An ended actor drops what it is sent, with a warning.
  if (at.status !== 'active') return '';
  const timers = driven.timers.join();
  driven.asked();
  driven.send(event);
  const isStill = driven.snapshot === at && driven.timers.join() === timers;
  if (isStill && driven.asked().length === 0) return '';
  return `${event.type} stirs ${JSON.stringify(at.value)}`;
}

/** What is wrong with the timers that run in a state; empty when nothing is. */
export function timersAmiss(
  name: ChartName,
  snapshot: AnyMachineSnapshot,
  timers: readonly string[],
): string {
  const { must, may = [] } = TIMERS[name](snapshot);
  const isRight =
    must.every((event) => timers.includes(event)) &&
    timers.every((event) => must.includes(event) || may.includes(event));
  return isRight ? '' : `the timers ${timers.join()} run in ${said(snapshot)}`;
}

function said({ value, context, status }: AnyMachineSnapshot): string {
  return JSON.stringify({ value, context, status });
}

function differenceOf(name: ChartName, driven: Driven, expected: AnyMachineSnapshot): string {
  const { snapshot, timers, clock } = driven;
  if (said(snapshot) !== said(expected)) return `is ${said(snapshot)}, not ${said(expected)}`;
  const amiss = timersAmiss(name, snapshot, timers);
  if (amiss !== '') return amiss;
  return clock.pendingTimers === timers.length ? '' : 'a timer was armed again and not cancelled';
}
