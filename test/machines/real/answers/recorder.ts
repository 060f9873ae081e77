/** Writes down every action that the charts of a worker ask for, and finds those that nothing answered in time. */
import type { ActorRef, AnyStateMachine } from 'xstate';
import type { ChartName } from '../../../../machines/index.ts';
import type { ChartProbe, ChartStep, Replace } from '../chart-probe.ts';
import { type Request, REQUESTS } from './requests.ts';

type Action = (args: { self: unknown }, params: unknown) => void;

/** One action that was asked for. */
interface Asked {
  readonly chart: ChartName;
  readonly action: string;
  readonly self: unknown;
  readonly atMs: number;
  /** Steps that the chart had taken when it had asked. */
  readonly after: number;
}

export class Recorder {
  readonly asked: Asked[] = [];
  readonly #byChart = new Map<unknown, ChartStep[]>();
  #sorted = 0;
  /** Whose actions these are; set once the worker is there. */
  probe: ChartProbe | null = null;

  /** Lets the same chart run with its actions written down. */
  readonly replace: Replace = (chart, machine) => {
    const actions = machine.implementations.actions as unknown as Record<string, Action>;
    const recording = Object.entries(actions).map(([action, act]): [string, Action] => [
      action,
      (args, params) => {
        const { self } = args;
        const { stepping, nowMs } = this.probe!;
        const after = this.#ownSteps(self).length + (stepping.has(self) ? 1 : 0);
        this.asked.push({ chart, action, self, atMs: nowMs(), after });
        act(args, params);
      },
    ]);
    return machine.provide({ actions: Object.fromEntries(recording) as never }) as AnyStateMachine;
  };

  /** How often an action was asked for. */
  countOf(chart: ChartName, action: string): number {
    return this.asked.filter((one) => one.chart === chart && one.action === action).length;
  }

  /**
   * Requests that nothing answered in time, each once.
   *
   * @param healedAtMs  From then on nothing fails any more.
   * @param wasFull  What failed was a store without room.
   */
  unanswered(healedAtMs: number, wasFull: boolean): string[] {
    const { nowMs } = this.probe!;
    const missing = this.asked.flatMap((asked) => {
      const request = REQUESTS[asked.chart][asked.action];
      if (request === undefined) return [];
      const own = this.#ownSteps(asked.self);
      const found = own.slice(asked.after).find((step) => ends(request, step));
      const isWaitedOut =
        request.persists !== undefined || (wasFull && request.waitsForRoom === true);
      const fromMs = isWaitedOut ? Math.max(asked.atMs, healedAtMs) : asked.atMs;
      // Who has ended waits for nothing, and what was asked just before the end had no time.
      const endedAtMs = hasEnded(asked.self) ? (own.at(-1)?.atMs ?? nowMs()) : nowMs();
      const answeredAtMs = found?.atMs ?? (hasEnded(asked.self) ? endedAtMs : Infinity);
      const dueMs = fromMs + request.withinMs;
      // Rounding of clocks that count in fractions.
      if (answeredAtMs <= dueMs + 1 || (found === undefined && nowMs() < dueMs)) return [];
      const took = found === undefined ? 'never' : `after ${Math.round(answeredAtMs - fromMs)} ms`;
      return [`${asked.chart}.${asked.action} was answered ${took}`];
    });
    return [...new Set(missing)];
  }

  /** Steps of one chart so far. */
  #ownSteps(self: unknown): readonly ChartStep[] {
    const { steps } = this.probe!;
    for (; this.#sorted < steps.length; this.#sorted += 1) {
      const step = steps[this.#sorted]!;
      const own = this.#byChart.get(step.self);
      if (own === undefined) this.#byChart.set(step.self, [step]);
      else own.push(step);
    }
    return this.#byChart.get(self) ?? [];
  }
}

function ends({ answers, overtakenBy }: Request, { event, after }: ChartStep): boolean {
  const { type } = event;
  return answers.includes(type) || overtakenBy.includes(type) || after.status !== 'active';
}

function hasEnded(self: unknown): boolean {
  return (self as ActorRef<never, never>).getSnapshot !== undefined
    ? (self as { getSnapshot(): { status: string } }).getSnapshot().status !== 'active'
    : false;
}
