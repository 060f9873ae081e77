/** What the generated paths ask of each part of a worker that runs a chart. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import type { Chart } from '../../../../machines/index.ts';
import type { Transition } from '../../../../src/coordinator/api/transition.ts';
import type { Replace, ChartProbe } from '../chart-probe.ts';

/** What is around a chart under way. */
export interface World {
  readonly probe: ChartProbe;
  /** The feed of transitions that operators see. */
  readonly feed: readonly Transition[];
  /** The id that the chart runs under. */
  readonly id: string;
  /** Moves time on until `condition` holds; false when it does not. */
  until(condition: () => boolean): Promise<boolean>;
  /** The state as the worker's status shows it; undefined once it shows none. */
  shown(): string | undefined;
  /** Hands the chart an event by itself, past everything that would send it. */
  inject(event: AnyEventObject): void;
}

/** One path: the events in order, and anything a world must know before its first. */
export type Path = readonly AnyEventObject[];

/** A transition for an event that nothing outside the chart leads to. */
export interface Unreachable {
  readonly transition: string;
  readonly why: string;
  readonly path: Path;
  readonly event: AnyEventObject;
}

/** A part of a worker: how its world makes each event happen, and what must be seen in each state. */
export interface Part<W extends World = World, Model = unknown> {
  readonly chart: Chart;
  /** Starts a chart of its own that is in the first state of every path. */
  begin(path: Path, replace?: Replace): Promise<W>;
  /** What the chart is started with, as the paths are found. */
  readonly input: Readonly<Record<string, unknown>>;
  /** Payloads that lead to different places; one without any where an event is not named. */
  readonly payloads?: Readonly<Record<string, readonly object[]>>;
  /** What the chart does not know of its world and the next event depends on. */
  readonly model: Model;
  next?(model: Model, event: AnyEventObject, before: AnyMachineSnapshot): Model;
  /** Whether the world can make an event happen now. */
  isPossible(event: AnyEventObject, snapshot: AnyMachineSnapshot, model: Model): boolean;
  /** Makes an event happen, by what happens outside the chart. `path` from this event on. */
  readonly executors: Readonly<
    Record<string, (world: W, event: AnyEventObject, path: Path) => void | Promise<void>>
  >;
  /** By state: what is wrong with the worker and the store in it; empty when nothing is. */
  readonly promises: Readonly<
    Record<string, (world: W, last: AnyMachineSnapshot) => string[] | Promise<string[]>>
  >;
  /** Whether an event may come by itself, besides those of the path; none may when absent. */
  mayFollow?(event: AnyEventObject, state: AnyMachineSnapshot, world: W): boolean;
  /** Looks at the end of a path; empty when nothing is wrong. */
  atEnd?(world: W, last: AnyMachineSnapshot): Promise<string[]> | string[];
  /** Transitions that no world brings about: after `path` their event is handed to the running chart. */
  readonly unreachable?: readonly Unreachable[];
}

/** What is wrong, unless `isTrue`. */
export function say(isTrue: boolean, what: string): string[] {
  return isTrue ? [] : [what];
}
