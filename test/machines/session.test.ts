/** What a session must do in the stories that matter. It is renewed after 3 s, and tried again after 200 ms. */
import { describe, expect, test } from '@jest/globals';
import { begin, type Driven } from './drive.ts';

function asked(): Driven {
  const session = begin('session');
  session.sendAll('session.wanted');
  expect([session.state, session.asked()]).toEqual(['opening', ['openSession']]);
  return session;
}

function granted(session: Driven, renewMs = 3_000): void {
  session.send({ type: 'opening.granted', renewMs });
}

function open(): Driven {
  const session = asked();
  granted(session);
  session.asked();
  return session;
}

async function renewing(): Promise<Driven> {
  const session = open();
  await session.advance(3_000);
  session.asked();
  return session;
}

async function late(): Promise<Driven> {
  const session = await renewing();
  session.send({ type: 'renewal.failed', pauseMs: 200 });
  return session;
}

function lapsing(): Driven {
  const session = open();
  session.sendAll('session.released');
  return session;
}

const OPEN = {
  'open.kept': open,
  'open.renewing': renewing,
  'open.late': late,
  'open.lapsing': lapsing,
} as const;

function abandon(session: Driven): void {
  session.send({ type: 'session.abandoned', reason: 'denied' });
}

describe('opening', () => {
  test('session - whoever wants one is told when it is open, and at once when it is', () => {
    const session = asked();
    session.sendAll('session.wanted');
    expect(session.asked()).toEqual([]);
    granted(session);
    expect([session.state, session.asked()]).toEqual(['open.kept', ['tellOpened']]);
    session.sendAll('session.wanted');
    expect([session.state, session.asked()]).toEqual(['open.kept', ['tellOpened']]);
  });

  test('session - every try in vain is told, and another one follows under the same id', async () => {
    const session = asked();
    for (let failure = 0; failure < 100; failure += 1) {
      session.send({ type: 'opening.failed', pauseMs: 200 });
      expect(session.asked()).toEqual(['tellUnopened']);
      await session.advance(199);
      expect(session.asked()).toEqual([]);
      await session.advance(1);
      expect([session.state, session.asked()]).toEqual(['opening', ['openAgain']]);
    }
  });

  test('session - one that was granted too late is let go, and another one asked for', () => {
    const session = asked();
    session.sendAll('opening.late');
    expect([session.state, session.asked()]).toEqual([
      'opening',
      ['discardOpening', 'openSession'],
    ]);
  });

  test('session - a wish outlives the store that it was put to', async () => {
    const session = asked();
    session.send({ type: 'opening.failed', pauseMs: 200 });
    session.asked();
    session.sendAll('store.reset');
    expect([session.state, session.asked(), session.timers]).toEqual([
      'opening',
      ['openSession'],
      [],
    ]);
    granted(session);
    expect(session.asked()).toEqual(['tellOpened']);
  });

  test.each([
    ['that is to be renewed no more', lapse, 'closed', ['discardOpening']],
    ['that is given back', giveBack, 'closing', ['closeSession']],
  ] as const)(
    'session - one %s while it is asked for is not opened',
    async (_what, act, state, actions) => {
      const session = asked();
      session.send({ type: 'opening.failed', pauseMs: 200 });
      session.asked();
      act(session);
      expect([session.state, session.asked()]).toEqual([state, actions]);
      granted(session);
      await session.advance(60_000);
      expect([session.state, session.asked()]).toEqual([state, []]);
    },
  );

  test('session - one that is abandoned while it is asked for is opened all the same: somebody waits for it', () => {
    const session = asked();
    session.send({ type: 'opening.failed', pauseMs: 200 });
    session.asked();
    abandon(session);
    expect([session.state, session.asked()]).toEqual(['opening', []]);
    granted(session);
    expect(session.asked()).toEqual(['tellOpened']);
  });
});

function lapse(session: Driven): void {
  session.sendAll('session.released');
}

function giveBack(session: Driven): void {
  session.sendAll('session.unwanted');
}

describe('open', () => {
  test('session - each renewal comes as long after the one before as its answer says', async () => {
    const session = asked();
    granted(session, 3_000);
    session.asked();
    for (const [renewMs, nextMs] of [
      [3_000, 2_500],
      [2_500, 0],
      [0, 100],
    ] as const) {
      await session.advance(Math.max(0, renewMs - 1));
      if (renewMs > 0) expect([renewMs, session.asked()]).toEqual([renewMs, []]);
      await session.advance(Math.min(1, renewMs));
      expect([session.state, session.asked()]).toEqual(['open.renewing', ['renew']]);
      session.send({ type: 'renewal.answered', renewMs: nextMs });
      expect(session.state).toBe('open.kept');
    }
  });

  test('session - a renewal that is not answered is tried again and again', async () => {
    const session = await late();
    for (let failure = 0; failure < 20; failure += 1) {
      await session.advance(199);
      expect(session.asked()).toEqual([]);
      await session.advance(1);
      expect([session.state, session.asked()]).toEqual(['open.late', ['renew']]);
      session.send({ type: 'renewal.failed', pauseMs: 200 });
    }
    session.send({ type: 'renewal.answered', renewMs: 3_000 });
    expect([session.state, session.timers]).toEqual(['open.kept', ['renewal.due']]);
  });

  test('session - one renewed no more is believed in until its time is up', async () => {
    const session = lapsing();
    await session.advance(60_000);
    session.send({ type: 'renewal.answered', renewMs: 3_000 });
    expect([session.state, session.asked(), session.timers]).toEqual(['open.lapsing', [], []]);
    session.sendAll('deadline.passed');
    expect([session.state, session.asked()]).toEqual(['closed', ['tellExpired', 'revoke']]);
  });
});

describe('the end of a session', () => {
  const ENDS = [
    ['deadline.passed', ['tellExpired', 'revoke']],
    ['session.abandoned', ['tellExpired', 'revoke']],
    // The store has ended it already, or never had it.
    ['session.gone', ['tellExpired']],
    ['store.reset', ['tellExpired']],
    // Who gives it back knows.
    ['session.unwanted', ['closeSession']],
  ] as const;

  test.each(
    (Object.keys(OPEN) as (keyof typeof OPEN)[]).flatMap((state) =>
      ENDS.map(([type, actions]) => ({ state, type, actions })),
    ),
  )(
    'session - $type ends one that is $state: everybody hears of it before the store, and nothing runs on',
    async ({ state, type, actions }) => {
      const session = await OPEN[state]();
      expect(session.state).toBe(state);
      session.asked();
      session.send({ type, reason: 'denied' });
      expect([session.asked(), session.timers]).toEqual([actions, []]);
      expect(session.state).toBe(type === 'session.unwanted' ? 'closing' : 'closed');
      session.send({ type: 'renewal.answered', renewMs: 3_000 });
      session.sendAll('session.gone', 'deadline.passed', 'renewal.due', 'store.reset');
      await session.advance(60_000);
      expect(session.asked()).toEqual([]);
    },
  );

  test('session - after its end another one is opened only when it is wanted', async () => {
    const session = open();
    session.sendAll('deadline.passed');
    session.asked();
    await session.advance(60_000);
    expect(session.asked()).toEqual([]);
    session.sendAll('session.wanted');
    expect([session.state, session.asked()]).toEqual(['opening', ['openSession']]);
  });

  test('session - one that is wanted while the one before is given back does not wait for that', () => {
    const session = open();
    session.sendAll('session.unwanted');
    session.asked();
    session.sendAll('session.wanted');
    expect([session.state, session.asked()]).toEqual(['opening', ['openSession']]);
    session.sendAll('closing.answered');
    expect(session.state).toBe('opening');
  });
});
