/**
 * The real charts as pure functions, each step reckoned once: a world asks for the same few hundred steps millions of
 * times.
 */
import {
  type AnyEventObject,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  initialTransition,
  transition,
} from 'xstate';
import { keyOf } from '../explore.ts';

/** One state of a chart, the only object of its kind: two of them are the same state only if they are the same object. */
export interface ChartState {
  readonly id: number;
  /** `held.owned`; of a parallel state every region, joined by a blank. */
  readonly name: string;
  readonly context: Readonly<Record<string, unknown>>;
  readonly hasEnded: boolean;
  /** It, and all that it lies within; of a parallel state every region. */
  readonly within: ReadonlySet<string>;
  has(tag: string): boolean;
}

/** A timer that is armed, or disarmed. */
export interface TimerChange {
  readonly id: string;
  /** What it raises when it fires; null when it is disarmed. */
  readonly event: string | null;
}

export interface ChartStep {
  readonly next: ChartState;
  /** The named actions it asks for, in order. */
  readonly asked: readonly string[];
  /** In order; a world may leave its timers out. */
  readonly timers: readonly TimerChange[];
}

interface Known {
  readonly state: ChartState;
  readonly snapshot: AnyMachineSnapshot;
  readonly steps: Map<string, ChartStep>;
}

export class PureChart {
  readonly initial: ChartState;
  /** Asked for by the first state already. */
  readonly askedFirst: readonly string[];
  readonly #machine: AnyStateMachine;
  readonly #counters: readonly string[];
  readonly #byKey = new Map<string, Known>();
  readonly #byId: Known[] = [];

  /** `counters`: fields of the context that decide nothing but how long a timer runs. */
  constructor(machine: AnyStateMachine, input: unknown, counters: readonly string[] = []) {
    this.#machine = machine;
    this.#counters = counters;
    const [snapshot, actions] = initialTransition(machine, input as never);
    this.initial = this.#know(snapshot).state;
    this.askedFirst = namesOf(actions);
  }

  /** States seen so far. */
  get size(): number {
    return this.#byId.length;
  }

  /** What the chart does on this event; nothing once it has ended. */
  step(state: ChartState, event: AnyEventObject): ChartStep {
    const known = this.#byId[state.id]!;
    const key = JSON.stringify(event);
    const before = known.steps.get(key);
    if (before !== undefined) return before;
    const found = state.hasEnded
      ? { next: state, asked: [], timers: [] }
      : this.#reckon(known, event);
    known.steps.set(key, found);
    return found;
  }

  #reckon(known: Known, event: AnyEventObject): ChartStep {
    const [snapshot, actions] = transition(this.#machine, known.snapshot, event);
    return {
      next: this.#know(snapshot).state,
      asked: namesOf(actions),
      timers: timersOf(actions),
    };
  }

  #know(snapshot: AnyMachineSnapshot): Known {
    const context = { ...snapshot.context } as Record<string, unknown>;
    for (const name of this.#counters) context[name] = null;
    const key = keyOf({ ...snapshot, context } as AnyMachineSnapshot);
    const before = this.#byKey.get(key);
    if (before !== undefined) return before;
    const leaves = leavesOf(snapshot.value);
    const state: ChartState = {
      id: this.#byId.length,
      name: leaves.join(' '),
      within: new Set(leaves.flatMap(outerStates)),
      context: snapshot.context as Record<string, unknown>,
      hasEnded: snapshot.status !== 'active',
      has: (tag) => snapshot.hasTag(tag),
    };
    const known = { state, snapshot, steps: new Map<string, ChartStep>() };
    this.#byKey.set(key, known);
    this.#byId.push(known);
    return known;
  }
}

/** True in a state, or in one within it; of a parallel state any region counts. */
export function isInState({ within }: ChartState, state: string): boolean {
  return within.has(state);
}

function outerStates(leaf: string): string[] {
  const parts = leaf.split('.');
  return parts.map((_, index) => parts.slice(0, index + 1).join('.'));
}

function namesOf(actions: readonly { readonly type: string }[]): string[] {
  return actions.map(({ type }) => type).filter((type) => !type.startsWith('xstate.'));
}

interface TimerAction {
  readonly type: string;
  readonly params?: unknown;
}

interface TimerParams {
  readonly id?: string;
  readonly sendId?: string;
  readonly delay?: number;
  readonly event?: { readonly type: string };
}

function timersOf(actions: readonly TimerAction[]): TimerChange[] {
  return actions.flatMap(({ type, params }): TimerChange[] => {
    const { id, sendId, delay, event } = (params ?? {}) as TimerParams;
    if (type === 'xstate.cancel') return [{ id: sendId!, event: null }];
    if (type !== 'xstate.raise' || delay === undefined) return [];
    return [{ id: id!, event: event!.type }];
  });
}

function leavesOf(value: unknown, outer = ''): string[] {
  const join = (key: string): string => (outer === '' ? key : `${outer}.${key}`);
  if (typeof value === 'string') return [join(value)];
  return Object.entries(value as object).flatMap(([key, inner]) => leavesOf(inner, join(key)));
}
