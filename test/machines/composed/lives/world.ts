/** The lives of a small fleet as a world to explore. */
import { emptyEtcd, put } from '../etcd.ts';
import { after, type World } from '../explore.ts';
import { keys } from '../model.ts';
import { step } from './actors.ts';
import { brokenIn, goalsOf } from './goals.ts';
import { keyOfLives } from './keys.ts';
import {
  charts,
  cloneLives,
  type LifeSetting,
  type Lives,
  newActor,
  newLife,
  NO_BOUNDS,
} from './model.ts';
import { newPlan } from './records.ts';
import { stepsOf } from './steps.ts';

const SETTING: LifeSetting = {
  instances: ['a'],
  bounds: {},
  prompt: [],
  maxAttempts: 9,
  denialsEnd: true,
  completes: false,
  without: null,
};

/** A fleet whose workers start; `then` are steps by their labels before the first one that counts. */
export function livesWorld(
  name: string,
  change: Partial<LifeSetting>,
  then: readonly string[] = [],
): World<Lives> {
  const setting: LifeSetting = { ...SETTING, ...change };
  const world: World<Lives> = {
    name,
    initial: firstState(setting),
    clone: cloneLives,
    keyOf: keyOfLives,
    stepsOf: (lives) => stepsOf(setting, lives),
    brokenIn,
    goals: goalsOf(setting),
  };
  return { ...world, initial: after(world, then) };
}

function firstState({ instances, bounds }: LifeSetting): Lives {
  const etcd = emptyEtcd();
  put(etcd, keys.plan, newPlan());
  // Nobody waits for a worker that was never there.
  const unseen = step(charts.peer, newActor(charts.peer), {
    type: 'peer.vanished',
    delayMs: 0,
  }).next;
  return {
    etcd,
    workers: instances.map(newLife),
    peers: Object.fromEntries(instances.map((id) => [id, unseen])),
    denied: [],
    deniedLeaders: [],
    isPaused: false,
    drained: [],
    sessionCount: 0,
    left: { ...NO_BOUNDS, ...bounds },
    fault: null,
  };
}
