/** Values thrown of every shape, by handlers and planners: each fails its tenancy and is described; every record stays readable. */
import { describe, expect, test } from '@jest/globals';
import type { Planner } from '../../../src/index.ts';
import { finalPlan } from '../../support/fleet.ts';
import { eventsOf } from '../../support/observed.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const revoked = Proxy.revocable({}, {});
revoked.revoke();
const loop = new Error('its own cause');
loop.cause = loop;

const withMessage = (message: unknown): Error => Object.assign(new Error(), { message });

const THROWN: readonly (readonly [string, unknown, RegExp])[] = [
  ['undefined', undefined, /^undefined$/],
  ['null', null, /^null$/],
  ['an empty text', '', /./],
  ['a symbol', Symbol('s'), /Symbol\(s\)/],
  ['a list', [1, 2], /\[1,2\]/],
  ['an object without a prototype', Object.create(null), /./],
  ['a proxy that was revoked', revoked.proxy, /./],
  ['an error whose message is a list', withMessage(['a']), /\["a"\]/],
  ['an error whose message is an object', withMessage({ a: 1 }), /\{"a":1\}/],
  ['an error whose message is a number', withMessage(5), /^5$/],
  ['an error with three million characters', new Error('x'.repeat(3_000_000)), /^x+\.\.\.$/],
  ['an error that is its own cause', loop, /its own cause/],
  ['several errors', new AggregateError([new Error('a'), 'b']), /a; b/],
  ['half of a surrogate pair and NUL', new Error('a\uD800\u0000'), /^a\uFFFD\uFFFD$/],
  [
    'an error that throws when it is looked at',
    {
      get message(): string {
        throw new Error('no');
      },
      toString(): string {
        throw new Error('no');
      },
    },
    /./,
  ],
];

describe('a handler that throws', () => {
  test.each(THROWN)(
    'thrown by a handler - %s: fails the tenancy, is described, and is set aside in a record that can be read (R55)',
    async (_, thrown, words) => {
      await startFleet({ planner: finalPlan(['bad', 'good']), config: { maxAttempts: 2 } });
      const a = fleet.worker('a', async (grant) => {
        if (grant.split.id === 'bad') throw thrown;
        await grant.complete();
      });
      await fleet.until(
        'a failure',
        () => (fleet.split('bad')?.lastFailure ?? null) !== null,
        5_000,
      );
      const { lastFailure } = fleet.split('bad')!;
      expect(lastFailure!.reason).toMatch(words);
      expect(lastFailure!.reason.length).toBeLessThanOrEqual(1_000);
      await fleet.until('the verdict', () => a.run.state === 'resolved', 60_000);
      expect(a.run.value).toMatchObject({ completed: 1, quarantinedIds: ['bad'] });
      const [line] = a.lines.filter(({ event }) => event === 'handler.threw');
      expect(line!.fields).toMatchObject({ job: 'job', instanceId: 'a', split: 'bad', epoch: '1' });
      expect(line!.fields.err).toBeInstanceOf(Error);
      expect(line!.fields.reason).toMatch(words);
      await fleet.operator().requeue('bad');
    },
  );

  test('a reason - that is no text is described as if it had been thrown (R55)', async () => {
    await startFleet({ planner: finalPlan(['bad']), config: { maxAttempts: 1 } });
    fleet.worker('a', (grant) => grant.fail(withMessage(['a']) as unknown as string));
    await fleet.until('a failure', () => (fleet.split('bad')?.lastFailure ?? null) !== null, 5_000);
    expect(fleet.split('bad')!.lastFailure!.reason).toBe('["a"]');
  });
});

describe('a planner that throws', () => {
  test.each(THROWN)(
    'thrown by a planner - %s: is described, and it is asked again (R55)',
    async (_, thrown, words) => {
      let asked = 0;
      const planner: Planner = {
        fingerprint: () => 'p',
        plan: () => {
          asked += 1;
          if (asked === 1) throw thrown;
          return { splits: [{ id: 's1', descriptor: '' }], finality: 'final' };
        },
      };
      await startFleet({ planner });
      const a = fleet.seam('a');
      await fleet.until('it holds', () => a.held.size === 1, 10_000);
      const [failed] = eventsOf(a, 'plannerFailed');
      expect(failed).toMatchObject({ isFatal: false, reason: expect.stringMatching(words) });
      expect(
        JSON.parse(JSON.stringify(a.events.filter(({ type }) => type === 'plannerFailed'))),
      ).toEqual([failed]);
    },
  );
});
