/**
 * Finds the shortest path to every transition that a part's world can bring about, and walks each on the real part: the
 * world makes the path's events happen, and after each the running chart must stand where the pure one stands.
 */
import {
  type AnyEventObject,
  type AnyMachineSnapshot,
  fromTransition,
  getNextTransitions,
  initialTransition,
  transition,
} from 'xstate';
import { getShortestPaths } from 'xstate/graph';
import { activeIn, timersAmiss } from '../coverage.ts';
import { transitionName } from '../drive.ts';
import { keyOf } from '../explore.ts';
import type { ChartStep, Replace, StartedChart } from './chart-probe.ts';
import type { Part, Path, World } from './parts/part.ts';

/** Far above what any chart needs; an unbounded world fails here. */
const TRAVERSALS_MAX = 20_000;

interface Explored<Model> {
  readonly chart: AnyMachineSnapshot;
  readonly model: Model;
}

/** The events a world can make happen in a state, with their payloads. */
function eventsIn<W extends World, Model>(
  part: Part<W, Model>,
  { chart, model }: Explored<Model>,
): AnyEventObject[] {
  if (chart.status !== 'active') return [];
  const types = new Set(getNextTransitions(chart).map(({ eventType }) => eventType));
  return [...types]
    .flatMap((type) => (part.payloads?.[type] ?? [{}]).map((payload) => ({ type, ...payload })))
    .filter((event) => part.chart.machine.getTransitionData(chart, event).length > 0)
    .filter((event) => part.isPossible(event, chart, model));
}

/** A path to each transition from each state in front of it; one that begins another is left out. */
export function pathsOf<W extends World, Model>(part: Part<W, Model>): Path[] {
  const { machine } = part.chart;
  const [initial] = initialTransition(machine, part.input as never);
  const logic = fromTransition(
    ({ chart, model }: Explored<Model>, event: AnyEventObject): Explored<Model> => ({
      chart: transition(machine, chart, event)[0],
      model: part.next?.(model, event, chart) ?? model,
    }),
    { chart: initial, model: part.model },
  );
  const found = getShortestPaths(logic, {
    events: (snapshot) => eventsIn(part, snapshot.context),
    // The last event and where it came from: one path to a state would leave the other ways into it out.
    serializeState: ({ context: { chart, model } }, event, before) =>
      JSON.stringify([
        keyOf(chart),
        model,
        event === undefined ? '' : classOf(event),
        before?.context.chart.value,
      ]),
    limit: TRAVERSALS_MAX,
  });
  const paths = found.map(({ steps }) =>
    steps.map(({ event }) => event).filter(({ type }) => type !== 'xstate.init'),
  );
  const begun = new Set(
    paths.flatMap((path) => path.map((_, end) => nameOfPath(path.slice(0, end)))),
  );
  return paths.filter((path) => path.length > 0 && !begun.has(nameOfPath(path)));
}

/** What tells two events of a type apart: how long something takes does not, nor does a text for people. */
function classOf(event: AnyEventObject): string {
  const isForPeople = (field: unknown): boolean => typeof field === 'string' && field.includes(' ');
  return JSON.stringify(event, (name, field: unknown) =>
    name.endsWith('Ms') || isForPeople(field) ? undefined : field,
  );
}

export function nameOfPath(path: Path): string {
  return path.map(classOf).join();
}

/** How a walk went. */
export interface Walked {
  readonly taken: readonly string[];
  /** What went wrong first; null when nothing did. */
  readonly fault: string | null;
  readonly steps: number;
}

/** How to walk. */
export interface WalkOptions {
  /** Lets another chart run in the place of the real one. */
  readonly replace?: Replace;
  /** An event that is handed to the running chart at the end of the path. */
  readonly injected?: AnyEventObject;
}

export async function walk<W extends World, Model>(
  part: Part<W, Model>,
  path: Path,
  { replace, injected }: WalkOptions = {},
): Promise<Walked> {
  const world = await part.begin(path, replace);
  const walker = new Walker(part, world);
  try {
    await walker.go(path);
    if (injected !== undefined) await walker.inject(injected);
    await walker.end();
  } catch (error) {
    walker.note(error instanceof Error ? error.message : String(error));
  }
  return { taken: walker.taken, fault: walker.fault, steps: walker.way.length };
}

class Walker<W extends World, Model> {
  readonly #part: Part<W, Model>;
  readonly #world: W;
  readonly #chart: StartedChart;
  #expected: AnyMachineSnapshot;
  /** Steps of the running chart that were looked at. */
  #seen = 0;
  /** What came by itself since the last event of the path. */
  #extras: string[] = [];
  readonly taken: string[] = [];
  readonly way: string[] = [];
  fault: string | null = null;

  constructor(part: Part<W, Model>, world: W) {
    this.#part = part;
    this.#world = world;
    this.#chart = world.probe.find(part.chart.name, world.id)!;
    this.#expected = initialTransition(part.chart.machine, this.#chart.input as never)[0];
  }

  note(wrong: string): void {
    this.fault ??= `${this.way.slice(-8).join(' > ')}: ${wrong}`;
  }

  async go(path: Path): Promise<void> {
    this.#follow(this.#fresh(), null);
    for (const [index, event] of path.entries()) {
      if (this.fault !== null) return;
      // What came by itself may have been the next event.
      const place = this.#extras.indexOf(classOf(event));
      if (place >= 0) {
        this.#extras.splice(0, place + 1);
        continue;
      }
      if (!this.#isEnabled(event)) {
        this.note(`${classOf(event)} is not possible any more`);
        return;
      }
      await this.#bring(event, path.slice(index));
    }
  }

  /** Hands the running chart an event that nothing outside brings about. */
  async inject(event: AnyEventObject): Promise<void> {
    if (this.fault !== null) return;
    this.way.push(classOf(event));
    this.#world.inject(event);
    this.#follow(this.#fresh(), classOf(event));
    this.#compareStatus();
  }

  async end(): Promise<void> {
    if (this.fault !== null) return;
    this.#checkFeed();
    for (const wrong of (await this.#part.atEnd?.(this.#world, this.#expected)) ?? []) {
      this.note(wrong);
    }
  }

  async #bring(event: AnyEventObject, rest: Path): Promise<void> {
    const { type } = event;
    const wanted = classOf(event);
    this.way.push(wanted);
    this.#extras = [];
    const isWanted = (step: ChartStep): boolean => classOf(step.event) === wanted;
    const from = this.#world.probe.steps.length;
    const arrived = (): boolean =>
      this.#world.probe.steps.slice(from).some((step) => this.#isOwn(step) && isWanted(step));
    await this.#part.executors[type]!(this.#world, event, rest);
    if (!(await this.#world.until(arrived))) {
      this.note(`the world did not bring ${wanted} about`);
      return;
    }
    this.#follow(this.#fresh(), wanted);
    await this.#compare();
  }

  /** Operators hear of every move, and of nothing else. */
  #checkFeed(): void {
    const { name } = this.#part.chart;
    const moves = this.#world.probe.steps
      .filter((step) => this.#isOwn(step))
      .map(({ event, before, after }) => ({
        event: event.type,
        from: renderedState(before.value),
        to: renderedState(after.value),
      }))
      .filter(({ from, to }) => from !== to);
    const told = this.#world.feed
      .filter(({ chart, id }) => chart === name && id === this.#world.id)
      .map(({ event, from, to }) => ({ event, from, to }));
    // Another chart of the same name may have followed.
    if (JSON.stringify(told.slice(0, moves.length)) !== JSON.stringify(moves)) {
      this.note(`the feed tells ${JSON.stringify(told)}, not ${JSON.stringify(moves)}`);
    }
  }

  #isOwn(step: ChartStep): boolean {
    return step.of === this.#chart;
  }

  #fresh(): ChartStep[] {
    const { steps } = this.#world.probe;
    const fresh = steps.slice(this.#seen).filter((step) => this.#isOwn(step));
    this.#seen = steps.length;
    return fresh;
  }

  #isEnabled(event: AnyEventObject): boolean {
    const { machine } = this.#part.chart;
    return (
      this.#expected.status === 'active' &&
      machine.getTransitionData(this.#expected, event).length > 0
    );
  }

  /** Takes every step of the running chart in the pure one too. */
  #follow(steps: readonly ChartStep[], wanted: string | null): void {
    const { machine, name, ignores } = this.#part.chart;
    let hasCome = false;
    for (const { event, after, taken } of steps) {
      const pure = this.#expected;
      const reckoned =
        pure.status === 'active' ? machine.getTransitionData(pure, event).map(transitionName) : [];
      if (reckoned.length === 0 && taken.length === 0) {
        const active = activeIn(pure);
        const isListed = ignores.some(
          (one) =>
            (one.event === '*' || one.event === event.type) &&
            one.states.some((state) => active.includes(state)),
        );
        if (!isListed) this.note(`${event.type} is not listed as ignored in ${active.join(' ')}`);
        continue;
      }
      const isPlanned: boolean = !hasCome && wanted !== null && classOf(event) === wanted;
      hasCome ||= isPlanned;
      if (
        !isPlanned &&
        wanted !== null &&
        this.#part.mayFollow?.(event, pure, this.#world) !== true
      ) {
        this.note(`${classOf(event)} came by itself in ${JSON.stringify(pure.value)}`);
      }
      if (!isPlanned) this.#extras.push(classOf(event));
      this.#expected = transition(machine, pure, event)[0];
      if (reckoned.join() !== taken.join()) {
        this.note(`${name} took ${taken.join() || 'nothing'}, not ${reckoned.join() || 'nothing'}`);
      }
      if (keyOf(after) !== keyOf(this.#expected)) {
        this.note(`is ${keyOf(after)}, not ${keyOf(this.#expected)}`);
      }
      this.taken.push(...taken);
    }
  }

  /** The worker shows the state, and keeps what the state promises. */
  async #compare(): Promise<void> {
    this.#compareStatus();
    for (const name of activeIn(this.#expected)) {
      const wrong = (await this.#part.promises[name]?.(this.#world, this.#expected)) ?? [];
      for (const one of wrong) this.note(`${name} does not hold: ${one}`);
    }
  }

  #compareStatus(): void {
    const { running } = this.#chart;
    const state = renderedState(this.#expected.value);
    // Once it has ended, the status may show the next one of its name.
    const shown = running.hasEnded ? running.state : this.#world.shown();
    if (shown !== state) this.note(`the status shows ${shown}, not ${state}`);
    const amiss = timersAmiss(this.#part.chart.name, this.#expected, this.#chart.timers());
    if (amiss !== '') this.note(amiss);
  }
}

/** A state as a status shows it: `held.owned`, `leading.governing(planning.idle|judging.open)`. */
function renderedState(value: unknown): string {
  if (typeof value === 'string') return value;
  const parts = Object.entries(value as object).map(([name, below]: [string, unknown]) => {
    const isParallel = typeof below === 'object' && Object.keys(below as object).length > 1;
    return isParallel ? `${name}(${renderedState(below)})` : `${name}.${renderedState(below)}`;
  });
  return parts.join('|');
}
