/** Runs one chart as a worker does, on a clock that stands still until it is stepped, and writes down what it asks for. */
import {
  type AnyActorRef,
  type AnyEventObject,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyStateNode,
  type AnyTransitionDefinition,
  createActor,
} from 'xstate';
import { guardOf, nameOf, transitionsOf } from '../../machines/diagrams/walk.ts';
import { CHARTS, type Chart, type ChartName } from '../../machines/index.ts';
import { virtualClock, type VirtualClock } from '../../src/base/virtual-clock.ts';

export function chartOf(name: ChartName): Chart {
  return CHARTS.find((chart) => chart.name === name)!;
}

/** A machine whose named actions are written down instead of done. Built once: it is dear. */
export interface Recorder {
  readonly machine: AnyStateMachine;
  /** A name for every transition. */
  readonly names: ReadonlyMap<AnyTransitionDefinition, string>;
  readonly logs: WeakMap<AnyActorRef, string[]>;
}

export function recorderOf(machine: AnyStateMachine): Recorder {
  const logs = new WeakMap<AnyActorRef, string[]>();
  const record = (name: string): [string, unknown] => [
    name,
    ({ self }: { self: AnyActorRef }) => logs.get(self)?.push(name),
  ];
  const actions = Object.fromEntries(Object.keys(machine.implementations.actions).map(record));
  const recording = machine.provide({ actions: actions as never });
  const names = new Map(transitionsOf(recording).map((one) => [one, transitionName(one)]));
  return { machine: recording, names, logs };
}

/** `held.draining on drain.expired -> held.closing`, with the guard where there is one. */
export function transitionName(transition: AnyTransitionDefinition): string {
  const guard = guardOf(transition);
  const target = (transition.target as AnyStateNode[] | undefined)?.[0];
  const condition = guard === undefined ? '' : ` [${guard}]`;
  const end = target === undefined ? 'stays' : `-> ${nameOf(target)}`;
  return `${nameOf(transition.source)} on ${transition.eventType}${condition} ${end}`;
}

export interface Driven {
  readonly clock: VirtualClock;
  readonly snapshot: AnyMachineSnapshot;
  /** `held.draining`; of a parallel state every region, joined by a blank. */
  readonly state: string;
  /** The actions asked for since the last look. */
  asked(): string[];
  /** The events of the timers that run, sorted. */
  readonly timers: string[];
  send(event: AnyEventObject): void;
  /** Sends events that carry nothing, in this order. */
  sendAll(...types: string[]): void;
  advance(deltaMs: number): Promise<void>;
  /** Lets the timer of this event run out, if it runs and is the next one to; otherwise sends the event. */
  fire(event: AnyEventObject): Promise<void>;
}

interface Scheduled {
  readonly event: AnyEventObject;
  readonly delay: number;
}

export function drive(
  recorder: Recorder,
  input: unknown,
  onTaken: (transition: string) => void = () => undefined,
): Driven {
  const clock = virtualClock();
  const armedAtMs = new WeakMap<Scheduled, number>();
  const log: string[] = [];
  const actor = createActor(recorder.machine, {
    input: input,
    clock,
    inspect: (event) => {
      if (event.type !== '@xstate.microstep') return;
      for (const one of event._transitions) {
        const name = recorder.names.get(one);
        if (name !== undefined) onTaken(name);
      }
    },
  });
  recorder.logs.set(actor, log);
  let fault: Error | undefined;
  actor.subscribe({ error: (error: unknown) => (fault = error as Error) });

  const scheduled = (): Scheduled[] => {
    const { _scheduledEvents } = actor.system.getSnapshot() as unknown as {
      _scheduledEvents: Record<string, Scheduled>;
    };
    return Object.values(_scheduledEvents);
  };
  const look = (): void => {
    if (fault !== undefined) throw fault;
    for (const timer of scheduled()) {
      if (!armedAtMs.has(timer)) armedAtMs.set(timer, clock.nowMs());
    }
  };
  const dueMs = (timer: Scheduled): number => armedAtMs.get(timer)! + timer.delay;
  const send = (event: AnyEventObject): void => {
    actor.send(event);
    look();
  };
  const advance = async (deltaMs: number): Promise<void> => {
    await clock.advance(deltaMs);
    look();
  };
  actor.start();
  look();
  return {
    clock,
    get snapshot() {
      return actor.getSnapshot();
    },
    get state() {
      return leavesOf(actor.getSnapshot().value).join(' ');
    },
    asked: () => log.splice(0),
    get timers() {
      return scheduled()
        .map(({ event }) => event.type)
        .toSorted();
    },
    send,
    sendAll: (...types) => {
      for (const type of types) send({ type });
    },
    advance,
    fire: async (event) => {
      const next = scheduled().toSorted((a, b) => dueMs(a) - dueMs(b))[0];
      if (next?.event.type === event.type) await advance(dueMs(next) - clock.nowMs());
      else send(event);
    },
  };
}

function leavesOf(value: unknown, outer = ''): string[] {
  const join = (key: string): string => (outer === '' ? key : `${outer}.${key}`);
  if (typeof value === 'string') return [join(value)];
  return Object.entries(value as object).flatMap(([key, inner]) => leavesOf(inner, join(key)));
}

const recorders = new Map<ChartName, Recorder>();

/** A chart of this name under way, from its example input and what is changed in it. */
export function begin(name: ChartName, change: Readonly<Record<string, unknown>> = {}): Driven {
  const chart = chartOf(name);
  const recorder = recorders.get(name) ?? recorderOf(chart.machine);
  recorders.set(name, recorder);
  return drive(recorder, { ...chart.exampleInput, ...change });
}
