/** What leaving must do in the stories that matter: 10 s to drain, and 4 s for all that follows. */
import { describe, expect, test } from '@jest/globals';
import { begin, type Driven } from './drive.ts';

const DRAIN_MS = 10_000;
const SETTLE_MS = 4_000;

function tell(departure: Driven, type: string): void {
  departure.send({ type, atMs: departure.clock.nowMs() });
}

/** Asked to leave a while after the start. */
async function asked(): Promise<Driven> {
  const departure = begin('departure');
  await departure.advance(70_000);
  departure.send({
    type: 'leave.asked',
    atMs: departure.clock.nowMs(),
    drainMs: DRAIN_MS,
    settleMs: SETTLE_MS,
  });
  expect([departure.state, departure.asked()]).toEqual(['draining', ['beginDrain']]);
  return departure;
}

describe('leaving', () => {
  test('departure - a worker drains, resigns, says goodbye, closes its sessions and is gone, in this order', async () => {
    const departure = await asked();
    tell(departure, 'drain.finished');
    expect([departure.state, departure.asked()]).toEqual(['settling', ['resign']]);
    tell(departure, 'tenancies.ended');
    expect([departure.state, departure.asked()]).toEqual(['leaving', ['sayGoodbye']]);
    tell(departure, 'goodbye.answered');
    expect([departure.state, departure.asked()]).toEqual(['closing.sessions', ['closeSessions']]);
    departure.sendAll('sessions.closed');
    expect([departure.state, departure.asked()]).toEqual(['closing.answers', []]);
    tell(departure, 'tenancies.ended');
    expect([departure.state, departure.asked(), departure.timers]).toEqual([
      'gone',
      ['finish'],
      [],
    ]);
  });

  test('departure - a worker that was never started has nothing to leave', () => {
    const departure = begin('departure');
    departure.sendAll('leave.skipped');
    expect([departure.state, departure.asked()]).toEqual(['gone', ['finish']]);
  });

  test('departure - asked twice, it leaves once and by the first word', async () => {
    const departure = await asked();
    await departure.advance(4_000);
    departure.send({ type: 'leave.asked', atMs: departure.clock.nowMs(), drainMs: 1, settleMs: 1 });
    departure.sendAll('leave.skipped');
    await departure.advance(DRAIN_MS - 4_001);
    expect([departure.state, departure.asked()]).toEqual(['draining', []]);
    await departure.advance(1);
    expect(departure.state).toBe('settling');
  });
});

describe('the bounds', () => {
  test('departure - with nothing answered at all it takes the drain and one settling, each part in its share', async () => {
    const departure = await asked();
    await departure.advance(DRAIN_MS - 1);
    expect(departure.asked()).toEqual([]);
    await departure.advance(1);
    // What was not handed back is taken before leadership is given up.
    expect([departure.state, departure.asked()]).toEqual(['settling', ['forceAll', 'resign']]);
    await departure.advance(SETTLE_MS / 2 - 1);
    expect(departure.asked()).toEqual([]);
    await departure.advance(1);
    expect([departure.state, departure.asked()]).toEqual(['leaving', ['sayGoodbye']]);
    await departure.advance(SETTLE_MS / 4 - 1);
    expect(departure.asked()).toEqual([]);
    await departure.advance(1);
    expect([departure.state, departure.asked()]).toEqual(['closing.sessions', ['closeSessions']]);
    await departure.advance(SETTLE_MS / 4 - 1);
    expect(departure.asked()).toEqual([]);
    await departure.advance(1);
    expect([departure.state, departure.asked()]).toEqual(['gone', ['finish']]);
  });

  test('departure - what one part leaves over is the next one’s, and the end stays where it was', async () => {
    const departure = await asked();
    await departure.advance(1_000);
    tell(departure, 'drain.finished');
    const endsAtMs = departure.clock.nowMs() + SETTLE_MS;
    await departure.advance(300);
    tell(departure, 'tenancies.ended');
    departure.asked();
    await departure.advance(SETTLE_MS * (3 / 4) - 300 - 1);
    expect([departure.state, departure.asked()]).toEqual(['leaving', []]);
    await departure.advance(1);
    expect(departure.state).toBe('closing.sessions');
    departure.sendAll('sessions.closed');
    await departure.advance(endsAtMs - 1 - departure.clock.nowMs());
    expect(departure.state).toBe('closing.answers');
    await departure.advance(1);
    expect(departure.state).toBe('gone');
  });

  test('departure - an answer that comes when a part is over neither skips one nor prolongs it', async () => {
    const departure = await asked();
    await departure.advance(DRAIN_MS + SETTLE_MS / 2);
    expect(departure.state).toBe('leaving');
    tell(departure, 'drain.finished');
    tell(departure, 'tenancies.ended');
    expect(departure.state).toBe('leaving');
    await departure.advance(SETTLE_MS / 4);
    tell(departure, 'goodbye.answered');
    // The sessions are closed before anything ends: what is held is none of it any more.
    tell(departure, 'tenancies.ended');
    expect(departure.state).toBe('closing.sessions');
    await departure.advance(SETTLE_MS / 4);
    expect(departure.state).toBe('gone');
  });
});
