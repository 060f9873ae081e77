/** Calls that a worker waits for, and what a refusal of one means. */
import { isIn, tell } from './actors.ts';
import type { At, Call, CallName, Life } from './model.ts';

export function call(at: At, name: CallName, session = '', isParting = false): void {
  const others = at.worker.calls.filter((one) => one.name !== name);
  const calls = [...others, { name, session, isParting }];
  at.worker.calls = calls.sort((a, b) => (a.name < b.name ? -1 : 1));
}

export function callNamed(worker: Life, name: CallName): Call | undefined {
  return worker.calls.find((one) => one.name === name);
}

/** It was answered, or is nobody's business any more. */
export function drop({ worker }: Pick<At, 'worker'>, ...names: readonly CallName[]): void {
  if (worker.calls.some(({ name }) => names.includes(name))) {
    worker.calls = worker.calls.filter(({ name }) => !names.includes(name));
  }
}

export function isDenied({ lives, worker }: Pick<At, 'lives' | 'worker'>): boolean {
  return lives.denied.includes(worker.id);
}

/** What only leaders do is refused, too. */
export function isLeaderDenied(at: Pick<At, 'lives' | 'worker'>): boolean {
  return isDenied(at) || at.lives.deniedLeaders.includes(at.worker.id);
}

/** The link hears of a refusal; one that never was in the fleet ends by it (R45). */
export function refused(at: At): void {
  if (at.worker.isStarting) fatal(at, 'refused at its start');
  else tell(at, 'link', { type: 'call.denied' });
}

/** An error that no retry heals: the worker leaves. */
export function fatal(at: At, error: string): void {
  const { worker, later } = at;
  if (worker.error !== null || !isIn(worker, 'departure', 'staying')) return;
  worker.error = error;
  later.push(() => {
    leave(at);
  });
}

export function leave(at: At): void {
  if (!isIn(at.worker, 'departure', 'staying')) return;
  tell(at, 'departure', { type: 'leave.asked', atMs: 1, drainMs: 1, settleMs: 1 });
}

export function isLeaving(worker: Life): boolean {
  return !isIn(worker, 'departure', 'staying');
}

/** What this worker follows is the store as it is. */
export function sees(at: Pick<At, 'lives' | 'worker'>): boolean {
  const { isUp, isCurrent, isListed } = at.worker;
  return isUp && isCurrent && isListed && !isDenied(at);
}

/** Announced, not on the way out, and everything watched has been read. */
export function mayTakePart(at: Pick<At, 'lives' | 'worker'>): boolean {
  const { worker } = at;
  return sees(at) && isIn(worker, 'presence', 'present') && !isLeaving(worker) && !worker.isRefused;
}
