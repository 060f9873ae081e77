/** What happens to the store itself. */
import type { StoreSnapshot } from '../../store/memory.ts';
import type { ActOf, Aftermath } from './scenario.ts';
import type { World } from './world.ts';

/** The store is away for everybody, and then it is there again, or another one is. */
export function outage(world: World, { afterMs, forMs, then, silent }: ActOf<'outage'>): void {
  const snapshot = world.store.snapshot();
  const { life } = world;
  world.later(afterMs, () => {
    // What was saved in another store is nobody's backup of this one.
    if (world.life !== life) return;
    world.strike(`outage, then ${then}`);
    const end = world.disturbAll((process) => process.cutOff({ side: 'both', silent }));
    world.later(forMs, () => {
      if (world.life === life) comeBack(world, then, snapshot);
      end();
    });
  });
}

function comeBack(world: World, then: Aftermath, snapshot: StoreSnapshot): void {
  switch (then) {
    case 'same':
      return;
    case 'another':
      world.replaceStore((store) => store.reset());
      return;
    case 'earlier':
      world.replaceStore((store) => store.restore(snapshot));
      return;
    case 'earlierUnderTheSameId':
      world.replaceStore((store) => store.restore(snapshot, { sameCluster: true }));
      return;
  }
}
