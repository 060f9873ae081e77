/** What operators do to a fleet. */
import { createOperator } from '../../operator/operator.ts';
import type { Revision } from '../../base/decimals.ts';
import type { ActOf } from './scenario.ts';
import { JOB, PREFIX } from './simulated-process.ts';
import type { World } from './world.ts';

/** Carries out what an operator does. */
export function operate(world: World, act: ActOf<'pause' | 'cordon' | 'drain' | 'requeue'>): void {
  const operator = createOperator({
    job: JOB,
    prefix: PREFIX,
    store: world.store,
    random: world.random,
  });
  // What an operator cannot do, such as requeue a split that somebody else has just put back, is not done.
  const attempt = (done: Promise<void>): void => {
    done.then(
      () => {
        world.strike(act.do);
      },
      () => undefined,
    );
  };
  switch (act.do) {
    case 'pause':
      attempt(operator.pause());
      world.later(act.forMs, () => void operator.resume());
      return;
    case 'cordon':
    case 'drain': {
      const instance = world.at(act.worker)?.instance;
      if (instance === undefined) return;
      attempt(operator[act.do](instance));
      world.later(act.forMs, () => void operator[`un${act.do}`](instance));
      return;
    }
    case 'requeue': {
      const prefix = `${world.keys.root}parked/`;
      const requeue = (key: string): void => {
        attempt(operator.requeue(key.slice(prefix.length)));
      };
      for (const { key } of world.store.dump(prefix)) requeue(key);
      if (act.forMs > 0) whenPut(world, prefix, act, requeue);
      return;
    }
  }
}

/** Acts a little after each put under a prefix, for a while. */
function whenPut(
  world: World,
  prefix: string,
  { forMs, afterMs }: { readonly forMs: number; readonly afterMs: number },
  act: (key: string) => void,
): void {
  const next = String(BigInt(world.store.revision) + 1n) as Revision;
  const stream = world.store.watch({ prefix }, next).subscribe({
    next(event) {
      if (event.kind !== 'changes') return;
      for (const { key, entry } of event.changes) {
        if (entry === null) continue;
        // What was put back and set aside again meanwhile is another matter: several who act so would multiply without end.
        const { modRevision } = entry;
        const isStill = (): boolean => world.store.dump(key)[0]?.modRevision === modRevision;
        world.later(Math.max(1, afterMs), () => {
          if (isStill()) act(key);
        });
      }
    },
  });
  // Also when the faults are over by then.
  world.clock.setTimeout(() => {
    stream.unsubscribe();
  }, forMs);
}
