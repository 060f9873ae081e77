/** What a lane of writes must do in the stories that matter. It resends after 200 ms at first and 5 s at most. */
import { expect, test } from '@jest/globals';
import { begin, type Driven } from './drive.ts';

function settling(): Driven {
  const lane = begin('writing');
  lane.sendAll('batch.submitted', 'batch.unanswered');
  expect(lane.state).toBe('settling');
  return lane;
}

test('writing - answers in time cost no event, and a lane at rest is idle', () => {
  const lane = begin('writing');
  lane.sendAll('batch.submitted', 'batch.submitted', 'batch.answered', 'batch.submitted');
  expect([lane.state, lane.asked()]).toEqual(['writing', []]);
  lane.sendAll('lane.rested');
  expect([lane.state, lane.timers]).toEqual(['idle', []]);
});

test('writing - a batch that is not answered is sent again, ever more slowly, until it is', async () => {
  const lane = settling();
  for (const pauseMs of [200, 400, 800, 1_600, 3_200, 5_000, 5_000]) {
    await lane.advance(pauseMs - 1);
    expect([pauseMs, lane.asked()]).toEqual([pauseMs, []]);
    await lane.advance(1);
    expect([pauseMs, lane.asked()]).toEqual([pauseMs, ['resendBatch']]);
    lane.sendAll('batch.unanswered');
  }
});

test('writing - the pause stays bounded however long the store is away', async () => {
  const lane = settling();
  for (let send = 0; send < 2_000; send += 1) lane.sendAll('batch.unanswered');
  expect(lane.snapshot.context.unanswered).toBeLessThanOrEqual(10);
  await lane.advance(5_000);
  expect(lane.asked()).toEqual(['resendBatch']);
});

test('writing - one send at a time: after a resend the lane waits for word of it', async () => {
  const lane = settling();
  await lane.advance(60_000);
  expect(lane.asked()).toEqual(['resendBatch']);
});

test.each(['batch.answered', 'batch.abandoned'])(
  'writing - %s ends the resending, and the next doubt starts with a short pause',
  async (type) => {
    const lane = settling();
    lane.sendAll('batch.unanswered', 'batch.unanswered', type);
    expect([lane.state, lane.timers]).toEqual(['writing', []]);
    await lane.advance(60_000);
    expect(lane.asked()).toEqual([]);
    lane.sendAll('batch.unanswered');
    await lane.advance(200);
    expect(lane.asked()).toEqual(['resendBatch']);
  },
);

test('writing - a lane in doubt does not rest', () => {
  const lane = settling();
  lane.sendAll('lane.rested', 'batch.submitted');
  expect(lane.state).toBe('settling');
});

test.each([
  ['idle', []],
  ['writing', ['batch.submitted']],
  ['settling', ['batch.submitted', 'batch.unanswered']],
])('writing - a lane that is %s can be closed, and nothing is sent after', async (state, types) => {
  const lane = begin('writing');
  lane.sendAll(...types);
  expect(lane.state).toBe(state);
  lane.sendAll('lane.closed');
  expect([lane.state, lane.timers]).toEqual(['closed', []]);
  await lane.advance(60_000);
  expect(lane.asked()).toEqual([]);
});
