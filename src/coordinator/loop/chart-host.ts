/**
 * Runs charts as XState actors: one root actor each, on the worker's clock, with one feed of transitions for operators.
 *
 * Nobody outside this file holds an actor (a next-only subscriber of a raw actor can kill the process). An action that
 * throws is a bug: it is reported as a crash, never swallowed.
 */
import {
  type Actor,
  type AnyStateMachine,
  type ContextFrom,
  createActor,
  type EventFromLogic,
  type InputFrom,
} from 'xstate';
import type { ChartName } from '../../../machines/charts.ts';
import type { Tag } from '../../../machines/chart.ts';
import type { Clock } from '../../base/clock.ts';
import type { Transition } from '../api/transition.ts';

export class ChartHost {
  readonly #clock: Clock;
  readonly #onTransition: (transition: Transition) => void;
  readonly #crash: (error: unknown) => void;
  /** Events handled by all charts of this worker, the first state of each not counted. */
  eventCount = 0;

  constructor(
    clock: Clock,
    onTransition: (transition: Transition) => void,
    crash: (error: unknown) => void,
  ) {
    this.#clock = clock;
    this.#onTransition = onTransition;
    this.#crash = crash;
  }

  /** Starts a chart. `machine` must have its actions provided already (providing per actor is slow). */
  start<Machine extends AnyStateMachine>(
    machine: Machine,
    chart: ChartName,
    id: string,
    input: InputFrom<Machine>,
  ): RunningChart<EventFromLogic<Machine>, ContextFrom<Machine>> {
    let state = '';
    const since = { ms: this.#clock.nowMs() };
    const observe = (snapshot: { value: unknown }, event: { type: string }): void => {
      const from = state;
      state = stateName(snapshot.value);
      if (event.type === 'xstate.init') return;
      this.eventCount += 1;
      if (from !== state) {
        since.ms = this.#clock.nowMs();
        this.#onTransition({
          at: this.#clock.nowMs(),
          chart,
          id,
          event: event.type,
          from,
          to: state,
        });
      }
    };
    const actor = createActor<AnyStateMachine>(machine, {
      input,
      clock: this.#clock,
      // A throwing inspector wedges the actor for ever.
      inspect: (inspected) => {
        try {
          if (inspected.type === '@xstate.snapshot') {
            observe(inspected.snapshot as unknown as { value: unknown }, inspected.event);
          }
        } catch (error) {
          this.#crash(error);
        }
      },
    });
    actor.subscribe({ error: this.#crash });
    actor.start();
    return new RunningChart(actor, since);
  }
}

/** One running chart. */
export class RunningChart<Event extends { type: string }, Context = unknown> {
  readonly #actor: Actor<AnyStateMachine>;
  readonly #since: { readonly ms: number };

  constructor(actor: Actor<AnyStateMachine>, since: { readonly ms: number }) {
    this.#actor = actor;
    this.#since = since;
  }

  /** Monotonic time at which the present state was entered. */
  get sinceMs(): number {
    return this.#since.ms;
  }

  /** Hands the chart an event; false when the chart has ended and the event went nowhere. */
  send(event: Event): boolean {
    if (this.#actor.getSnapshot().status !== 'active') return false;
    this.#actor.send(event);
    return true;
  }

  /** The state by name, `held.owned`; regions are joined by `|`. */
  get state(): string {
    return stateName(this.#actor.getSnapshot().value);
  }

  /** What the chart knows beside its state. */
  get context(): Context {
    return this.#actor.getSnapshot().context as Context;
  }

  /** True in a final state. */
  get hasEnded(): boolean {
    return this.#actor.getSnapshot().status !== 'active';
  }

  hasTag(tag: Tag): boolean {
    return this.#actor.getSnapshot().hasTag(tag);
  }

  /** True in the state `name`, or in a state inside it. */
  isIn(name: string): boolean {
    const { state } = this;
    return state === name || state.startsWith(`${name}.`) || state.startsWith(`${name}(`);
  }

  stop(): void {
    this.#actor.stop();
  }
}

/** Renders a state value: `owned`, `held.owned`, `leading.governing(planning.idle|balancing.settled)`. */
function stateName(value: unknown): string {
  if (typeof value === 'string') return value;
  const entries = Object.entries(value as Record<string, unknown>);
  if (entries.length === 1) {
    const [name, inner] = entries[0]!;
    const innerName = stateName(inner);
    const isParallel = innerName.includes('|') && !innerName.endsWith(')');
    return isParallel ? `${name}(${innerName})` : `${name}.${innerName}`;
  }
  return entries.map(([name, inner]) => `${name}.${stateName(inner)}`).join('|');
}
