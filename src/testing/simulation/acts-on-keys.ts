/** What somebody does to the keys and sessions of a process, by hand. */
import type { SessionId } from '../../base/ids.ts';
import type { Entry } from '../../store/port.ts';
import type { ActOf } from './scenario.ts';
import type { SimulatedProcess } from './simulated-process.ts';
import type { World } from './world.ts';

/** A session of a process ends in the store, as if its time were up. */
export function revokeSession(
  world: World,
  process: SimulatedProcess,
  of: 'worker' | 'leader',
): void {
  const session = sessionOf(world, process, of);
  if (session === null) return;
  rob(world, process);
  world.store.expireSession(session);
  world.strike('revokeSession');
}

/** The session that a process has put its presence or the leader key under; null when it has none. */
export function sessionOf(
  world: World,
  process: SimulatedProcess,
  of: 'worker' | 'leader',
): SessionId | null {
  const key = of === 'leader' ? world.keys.leader : `${world.keys.root}workers/${process.instance}`;
  return ownEntry(world, process, key)?.session ?? null;
}

/** Somebody deletes a key of a process. */
export function deleteKey(
  world: World,
  process: SimulatedProcess,
  key: ActOf<'deleteKey'>['key'],
): void {
  const { keys } = world;
  const entry = ((): Entry | undefined => {
    switch (key) {
      case 'leader':
        return ownEntry(world, process, keys.leader);
      case 'presence':
        return ownEntry(world, process, `${keys.root}workers/${process.instance}`);
      case 'assignment':
        return world.store.dump(`${keys.root}assign/${process.instance}`)[0];
      case 'lease':
        return oneOf(world, process, `${keys.root}leases/`);
    }
  })();
  if (entry === undefined) return;
  rob(world, process);
  world.store.remove(entry.key);
  world.strike(`delete of ${key}`);
}

/** Nothing is lost by it: whoever owns the split knows its epoch again (R4). */
export function rewrite(world: World, process: SimulatedProcess): void {
  const entry = oneOf(world, process, `${world.keys.root}splits/`);
  if (entry === undefined) return;
  world.store.put(entry.key, entry.value);
  world.strike('rewrite');
}

/** One of the entries that this very process has put under a prefix. */
function oneOf(world: World, process: SimulatedProcess, prefix: string): Entry | undefined {
  const own = world.store.dump(prefix).filter(({ value }) => value.includes(process.nonce));
  return own[Math.floor(world.random.next() * own.length)];
}

/** The entry of a key, if this very process has put it there. */
function ownEntry(world: World, process: SimulatedProcess, key: string): Entry | undefined {
  const entry = world.store.dump(key).find((one) => one.key === key);
  return entry?.value.includes(process.nonce) === true ? entry : undefined;
}

function rob(world: World, process: SimulatedProcess): void {
  world.recorder.note({ kind: 'disturbed', process: process.number, by: 'robbed' });
}
