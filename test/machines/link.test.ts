/** What the way to the store must do in the stories that matter. The lease is 15 s. */
import { describe, expect, test } from '@jest/globals';
import { begin, type Driven } from './drive.ts';

const LEASE_MS = 15_000;

function after(...types: string[]): Driven {
  const link = begin('link');
  link.sendAll(...types);
  return link;
}

async function failing(): Promise<Driven> {
  const link = after('call.failed');
  await link.advance(LEASE_MS / 2);
  link.asked();
  return link;
}

async function barred(): Promise<Driven> {
  const link = after('call.denied');
  await link.advance(LEASE_MS);
  link.asked();
  return link;
}

describe('failing', () => {
  test('link - what fails for half a lease is said once, and its healing too', async () => {
    const link = after('call.failed');
    await link.advance(LEASE_MS / 2 - 1);
    link.sendAll('call.failed');
    expect([link.state, link.asked()]).toEqual(['faltering', []]);
    await link.advance(1);
    expect([link.state, link.asked()]).toEqual(['failing', ['reportFailing']]);
    link.sendAll('call.failed');
    await link.advance(60_000);
    expect([link.state, link.asked()]).toEqual(['failing', []]);
    link.sendAll('calls.healed');
    expect([link.state, link.asked()]).toEqual(['serving', ['reportHealed']]);
  });

  test('link - what heals sooner is not worth a word, and the next failure has half a lease again', async () => {
    const link = after('call.failed');
    await link.advance(LEASE_MS / 2 - 1);
    link.sendAll('calls.healed', 'call.failed');
    await link.advance(LEASE_MS / 2 - 1);
    expect([link.state, link.asked()]).toEqual(['faltering', []]);
  });
});

describe('denied', () => {
  test.each([
    ['serving', () => after()],
    ['faltering', () => after('call.failed')],
    ['failing', failing],
  ])('link - a refusal while %s is said at once', async (_state, reach) => {
    const link = await reach();
    link.sendAll('call.denied');
    expect([link.state, link.asked(), link.timers]).toEqual([
      'denied',
      ['reportDenied'],
      ['patience.over'],
    ]);
  });

  test('link - one that lasts a whole lease costs everything, and not a moment sooner', async () => {
    const link = after('call.denied');
    link.asked();
    await link.advance(LEASE_MS - 1);
    link.sendAll('call.denied', 'call.failed');
    expect([link.state, link.asked()]).toEqual(['denied', []]);
    await link.advance(1);
    expect([link.state, link.asked()]).toEqual(['barred', ['abandonAll']]);
    await link.advance(60_000);
    expect(link.asked()).toEqual([]);
  });

  test.each([
    ['calls.healed', 'serving', ['reportHealed']],
    // Other calls fail on.
    ['denial.lifted', 'failing', []],
  ])(
    'link - %s in time costs nothing, and the next refusal has a whole lease',
    async (type, state, said) => {
      const link = after('call.denied');
      await link.advance(LEASE_MS - 1);
      link.asked();
      link.sendAll(type);
      expect([link.state, link.asked(), link.timers]).toEqual([state, said, []]);
      link.sendAll('call.denied');
      await link.advance(LEASE_MS - 1);
      expect(link.state).toBe('denied');
    },
  );

  test('link - after everything was given up only being back in the fleet counts', async () => {
    const link = await barred();
    link.sendAll('call.failed', 'call.denied', 'denial.lifted', 'calls.healed');
    expect([link.state, link.asked()]).toEqual(['barred', []]);
    link.sendAll('worker.returned');
    expect([link.state, link.asked()]).toEqual(['serving', ['reportHealed']]);
  });
});
