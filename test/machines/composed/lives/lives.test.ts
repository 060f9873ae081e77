/**
 * The lives of a small fleet, explored to the last state: session, presence, leader and departure of each worker with all
 * that moves them, and everything that can go wrong in every state. Each fault that was there is put back once, and must be
 * missed.
 */
import { describe, expect, test } from '@jest/globals';
import { described, exploreWorld } from '../explore.ts';
import { ANYTHING, type LifeOmission, type LifeSetting } from './model.ts';
import { livesWorld } from './world.ts';

interface Case {
  readonly name: string;
  readonly setting: Partial<LifeSetting>;
}

/** Every delay of `a` is explored; `b` is prompt. */
const two = { instances: ['a', 'b'], prompt: ['b'] };

const one: Case = {
  name: 'one worker, to which anything happens',
  setting: { bounds: { ...ANYTHING, total: 1 } },
};
const restores: Case = {
  name: 'one worker, whose sessions end and whose store is replaced',
  setting: { bounds: { resets: 1, expiries: 1, lost: 1, total: 2 } },
};
const both: Case = {
  name: 'two workers, to which anything happens',
  setting: { ...two, bounds: { ...ANYTHING, total: 1 } },
};
const refused: Case = {
  name: 'two workers, of which one is refused for good',
  setting: { ...two, denialsEnd: false, bounds: { denials: 1, leaderDenials: 1, total: 1 } },
};
const lastTry: Case = {
  name: 'two workers, and a split at its last attempt',
  setting: {
    ...two,
    maxAttempts: 1,
    completes: true,
    bounds: { expiries: 1, kills: 1, stops: 1, total: 1 },
  },
};
const barred: Case = {
  name: 'one worker, refused with its session over',
  setting: { bounds: { denials: 1, expiries: 1, total: 2 } },
};

function explored({ name, setting }: Case, without: LifeOmission | null): string | null {
  const { states, transitions, found } = exploreWorld(livesWorld(name, { ...setting, without }));
  const what = without === null ? `${states} states, ${transitions} transitions` : without;
  const way = found === null ? '' : `: ${described(found)}`;
  process.stdout.write(`lives of ${name}: ${what}${way}\n`);
  return found === null ? null : found.what;
}

describe('the lives of a small fleet', () => {
  test.each([one, restores, both, refused, lastTry])(
    'composed - $name: safe in every state, and in order again wherever it ends up',
    (world) => {
      expect(explored(world, null)).toBeNull();
    },
  );

  test.each<[string, Case, LifeOmission, string]>([
    [
      'L1 put back, a worker that opens a session when the store is replaced never returns',
      restores,
      'L1: a reset drops a session that is being opened, and nobody joins anew',
      'never again: every worker is in the fleet, has left it, or says why not',
    ],
    [
      'L3 put back, one that may not read what leaders read leads for ever, and nobody else',
      refused,
      'L3: what a leader cannot read costs it nothing',
      'never again: somebody leads, where anybody can',
    ],
    [
      'L7 put back, a leader whose own session ends sets its split aside',
      { ...lastTry, setting: { ...lastTry.setting, instances: ['a'], prompt: [] } },
      'L7: the leader does not see itself as a worker',
      'a split is set aside while the worker that has it is away for a moment',
    ],
    [
      'R14’s forgetting, what a snapshot brings back kills a worker',
      restores,
      'R14: what was announced in the store before still counts',
      'a worker dies of a ghost of its own name',
    ],
    [
      'R45’s giving up, one that is refused keeps the split for as long as it can renew',
      refused,
      'R45: a session is kept for as long as it can be renewed',
      'never again: the split has ended or is worked on, where anybody can',
    ],
    [
      'R45’s care for who waits, giving up a session that is being opened leaves the worker waiting',
      barred,
      'R45: giving everything up drops a session that is being opened',
      'never again: every worker is in the fleet, has left it, or says why not',
    ],
  ])('composed - without %s', (_title, world, without, what) => {
    expect(explored(world, without)).toBe(what);
  });
});
