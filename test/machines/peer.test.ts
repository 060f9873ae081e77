/** What a worker must know of another one in the stories that matter. */
import { expect, test } from '@jest/globals';
import { begin, type Driven } from './drive.ts';

function vanish(peer: Driven, delayMs = 10_000): void {
  peer.send({ type: 'peer.vanished', delayMs });
}

test('peer - one that vanished is withheld for exactly the delay, and then gone', async () => {
  const peer = begin('peer');
  expect([peer.state, peer.asked()]).toEqual(['present', []]);
  vanish(peer);
  expect([peer.state, peer.asked()]).toEqual(['withheld', ['noteMembership']]);
  await peer.advance(9_999);
  expect([peer.state, peer.asked()]).toEqual(['withheld', []]);
  await peer.advance(1);
  expect([peer.state, peer.asked()]).toEqual(['gone', ['noteMembership']]);
});

test('peer - with no delay one that vanished is gone at once', () => {
  const peer = begin('peer');
  vanish(peer, 0);
  expect([peer.state, peer.asked(), peer.timers]).toEqual(['gone', ['noteMembership'], []]);
});

test('peer - one that returns within the delay is present, and its next absence starts anew', async () => {
  const peer = begin('peer');
  vanish(peer);
  await peer.advance(9_000);
  peer.sendAll('peer.announced');
  expect([peer.state, peer.timers]).toEqual(['present', []]);
  expect(peer.asked()).toEqual(['noteMembership', 'noteMembership']);
  await peer.advance(60_000);
  expect([peer.state, peer.asked()]).toEqual(['present', []]);
  vanish(peer);
  await peer.advance(9_999);
  expect(peer.state).toBe('withheld');
});

test('peer - hearing twice that it vanished neither prolongs the delay nor ends it', async () => {
  const peer = begin('peer');
  vanish(peer);
  await peer.advance(6_000);
  vanish(peer);
  vanish(peer, 0);
  await peer.advance(3_999);
  expect(peer.state).toBe('withheld');
  await peer.advance(1);
  expect(peer.state).toBe('gone');
});

test('peer - each absence waits as long as is said of it', async () => {
  const peer = begin('peer');
  for (const delayMs of [10_000, 700]) {
    vanish(peer, delayMs);
    await peer.advance(delayMs - 1);
    expect(peer.state).toBe('withheld');
    await peer.advance(1);
    expect(peer.state).toBe('gone');
    peer.sendAll('peer.announced');
  }
});

test.each([
  ['present', () => undefined],
  ['withheld', vanish],
])('peer - one that parts while %s is gone at once', (state, lead) => {
  const peer = begin('peer');
  lead(peer);
  expect(peer.state).toBe(state);
  peer.asked();
  peer.sendAll('peer.parting');
  expect([peer.state, peer.asked(), peer.timers]).toEqual(['gone', ['noteMembership'], []]);
});

test('peer - one that was gone is present as soon as it is announced', () => {
  const peer = begin('peer');
  peer.sendAll('peer.parting', 'peer.announced');
  expect([peer.state, peer.asked()]).toEqual(['present', ['noteMembership', 'noteMembership']]);
});

test('peer - an announcement of something else is no change of the members', () => {
  const peer = begin('peer');
  peer.sendAll('peer.announced');
  expect([peer.state, peer.asked()]).toEqual(['present', []]);
});
