/** A fleet of two that is too large for every day: about a quarter of a million states, a minute or so. */
import { expect, test } from '@jest/globals';
import { exploreWorld } from './explore.ts';
import { fleetWorld } from './fleets.ts';

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
  const { states, transitions, found } = exploreWorld(world);
  process.stdout.write(`composed ${world.name}: ${states} states, ${transitions} transitions\n`);
  expect(found).toBeNull();
  expect(states).toBeGreaterThan(200_000);
}, 600_000);
