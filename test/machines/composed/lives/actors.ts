/** Hands events to the charts of one worker, each of which takes one at a time, as in the coordinator. */
import type { AnyEventObject } from 'xstate';
import { isInState, type PureChart } from '../charts.ts';
import { type Actor, type At, charts, type Keeper, type Life } from './model.ts';

/** The charts that a worker has one of for all its life. */
export type ActorName =
  'presence' | 'session' | 'leader' | 'leaderSession' | 'departure' | 'link' | 'tenancy';

/** What a chart asks for. */
export type Effects = Readonly<Record<string, (at: At, event: AnyEventObject) => void>>;

const effectsOf = new Map<ActorName, Effects>();

/** Says what is done when a chart asks for it; what is not named does nothing here. */
export function provide(name: ActorName, effects: Effects): void {
  effectsOf.set(name, effects);
}

/** What a busy chart is told waits, as in its mailbox. */
const waiting = new Map<string, AnyEventObject[]>();

export function tell(at: At, name: ActorName, event: AnyEventObject): void {
  const key = `${at.worker.id} ${name}`;
  const line = waiting.get(key);
  if (line !== undefined) {
    line.push(event);
    return;
  }
  const events = [event];
  waiting.set(key, events);
  for (const one of events) take(at, name, one);
  waiting.delete(key);
}

function take(at: At, name: ActorName, event: AnyEventObject): void {
  const actor = actorOf(at.worker, name);
  if (actor === null) return;
  const { next, asked } = step(chartOf(name), actor, event);
  setActor(at.worker, name, next);
  for (const action of asked) effectsOf.get(name)?.[action]?.(at, event);
}

export function step(
  chart: PureChart,
  actor: Actor,
  event: AnyEventObject,
): { next: Actor; asked: readonly string[] } {
  const { next, asked, timers } = chart.step(actor.chart, event);
  if (next === actor.chart && timers.length === 0) return { next: actor, asked };
  let { armed } = actor;
  for (const timer of timers) {
    armed = armed.filter((one) => !one.startsWith(`${timer.id}:`));
    if (timer.event !== null) armed = [...armed, `${timer.id}:${timer.event}`].sort();
  }
  return { next: { chart: next, armed: next.hasEnded ? [] : armed }, asked };
}

/** An armed timer fires. */
export function fire(at: At, name: ActorName, timer: string): void {
  const actor = actorOf(at.worker, name)!;
  const armed = actor.armed.filter((one) => one !== timer);
  setActor(at.worker, name, { ...actor, armed });
  tell(at, name, { type: timer.slice(timer.indexOf(':') + 1) });
}

export function actorOf(worker: Life, name: ActorName): Actor | null {
  if (name === 'tenancy') return worker.tenancy?.actor ?? null;
  const part = worker[name];
  return 'actor' in part ? part.actor : part;
}

export function isIn(worker: Life, name: ActorName, state: string): boolean {
  const actor = actorOf(worker, name);
  return actor !== null && isInState(actor.chart, state);
}

function setActor(worker: Life, name: ActorName, actor: Actor): void {
  if (actorOf(worker, name) === actor) return;
  if (name === 'tenancy') worker.tenancy = { ...worker.tenancy!, actor };
  else if (name === 'session' || name === 'leaderSession') keep(worker, name, { actor });
  else worker[name] = actor;
}

export function keep(
  worker: Life,
  name: 'session' | 'leaderSession',
  change: Partial<Keeper>,
): void {
  worker[name] = { ...worker[name], ...change };
}

function chartOf(name: ActorName): PureChart {
  return charts[name === 'leaderSession' ? 'session' : name];
}
