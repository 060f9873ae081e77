/** Worlds that are too large for every day: up to half a million states each, and a minute or two. */
import { describe, expect, test } from '@jest/globals';
import { described, type Explored, exploreWorld, type World } from './explore.ts';
import { fleetWorld } from './fleets.ts';
import { ANYTHING, type LifeSetting } from './lives/model.ts';
import { livesWorld } from './lives/world.ts';

function exploreAloud<State>(world: World<State>): Explored {
  const explored = exploreWorld(world);
  const { states, transitions, found } = explored;
  const way = found === null ? '' : `: ${described(found)}`;
  process.stdout.write(
    `composed ${world.name}: ${states} states, ${transitions} transitions${way}\n`,
  );
  return explored;
}

test('composed - two workers that lead, drain and lose their sessions are safe in every state', () => {
  const world = fleetWorld(
    'sessions and moves',
    {
      instances: ['a', 'b'],
      hasLeaders: true,
      isPrompt: true,
      isStrict: false,
      completes: true,
      bounds: { moves: 1, fences: 1 },
    },
    {
      then: [
        'b stands for election',
        'b’s election lands',
        'b hears of its election: committed',
        'b divides the work',
      ],
    },
  );
  const { states, found } = exploreAloud(world);
  expect(found).toBeNull();
  expect(states).toBeGreaterThan(200_000);
}, 600_000);

describe('the lives of a small fleet, at length', () => {
  const twice = { ...ANYTHING, total: 2 };
  const prompt = { instances: ['a', 'b'], prompt: ['a', 'b'], bounds: twice };

  test.each<[string, Partial<LifeSetting>]>([
    [
      'two workers in every detail, to which one thing happens',
      { instances: ['a', 'b'], bounds: { ...ANYTHING, total: 1 } },
    ],
    ['one worker, to which two things happen', { bounds: twice }],
    ['two prompt workers, to which two things happen', prompt],
    ['two prompt workers, of which some are refused for good', { ...prompt, denialsEnd: false }],
    ['two prompt workers, and a split at its last attempt', { ...prompt, maxAttempts: 1 }],
  ])(
    'composed - %s: safe in every state, and in order again wherever it ends up',
    (name, setting) => {
      expect(exploreAloud(livesWorld(name, setting)).found).toBeNull();
    },
    600_000,
  );
});
