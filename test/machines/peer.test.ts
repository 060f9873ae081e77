/** What a worker must know of another one in the stories that matter. The rebalance delay is 10 s. */
import { expect, test } from '@jest/globals';
import { begin } from './drive.ts';

test('peer - one that vanished is withheld for exactly the delay, and then gone', async () => {
  const peer = begin('peer');
  expect([peer.state, peer.asked()]).toEqual(['present', []]);
  peer.sendAll('peer.vanished');
  expect([peer.state, peer.asked()]).toEqual(['withheld', ['noteMembership']]);
  await peer.advance(9_999);
  expect([peer.state, peer.asked()]).toEqual(['withheld', []]);
  await peer.advance(1);
  expect([peer.state, peer.asked()]).toEqual(['gone', ['noteMembership']]);
});

test('peer - with no delay one that vanished is gone at once', () => {
  const peer = begin('peer', { rebalanceDelayMs: 0 });
  peer.sendAll('peer.vanished');
  expect([peer.state, peer.asked(), peer.timers]).toEqual(['gone', ['noteMembership'], []]);
});

test('peer - one that returns within the delay is present, and its next absence starts anew', async () => {
  const peer = begin('peer');
  peer.sendAll('peer.vanished');
  await peer.advance(9_000);
  peer.sendAll('peer.announced');
  expect([peer.state, peer.timers]).toEqual(['present', []]);
  expect(peer.asked()).toEqual(['noteMembership', 'noteMembership']);
  await peer.advance(60_000);
  expect([peer.state, peer.asked()]).toEqual(['present', []]);
  peer.sendAll('peer.vanished');
  await peer.advance(9_999);
  expect(peer.state).toBe('withheld');
});

test('peer - hearing twice that it vanished does not prolong the delay', async () => {
  const peer = begin('peer');
  peer.sendAll('peer.vanished');
  await peer.advance(6_000);
  peer.sendAll('peer.vanished');
  await peer.advance(4_000);
  expect(peer.state).toBe('gone');
});

test.each([
  ['present', []],
  ['withheld', ['peer.vanished']],
])('peer - one that parts while %s is gone at once', (state, types) => {
  const peer = begin('peer');
  peer.sendAll(...types);
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
