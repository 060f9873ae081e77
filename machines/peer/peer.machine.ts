/**
 * One worker of the job as this one sees it: there, missing for a while, or gone.
 *
 * Every worker keeps these, of itself too, so that a new leader knows how long a departed worker has been missing (R26) and
 * its own splits follow the rule of all. Tests: test/machines.
 */
import { setup } from 'xstate';
import type { Tag } from '../chart.ts';
import type { PeerContext, PeerEvent, PeerInput } from './peer.events.ts';

const base = setup({
  types: {
    context: {} as PeerContext,
    input: {} as PeerInput,
    events: {} as PeerEvent,
    tags: {} as Tag,
  },
  actions: {
    /** The set of workers that may be given splits changed. */
    noteMembership: (_) => undefined,
  },
  guards: {
    hasNoDelay: (_, params: { delayMs: number }) => params.delayMs === 0,
  },
  delays: {
    rebalanceDelay: ({ context }) => context.delayMs,
  },
});

const noteDelay = base.assign(({ event }) =>
  event.type === 'peer.vanished' ? { delayMs: event.delayMs } : {},
);
const armDelay = base.raise({ type: 'delay.elapsed' }, { delay: 'rebalanceDelay', id: 'delay' });
const disarmDelay = base.cancel('delay');

export const peerMachine = base.createMachine({
  id: 'peer',
  description: 'A worker of the job, as this one sees it; itself too.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, delayMs: 0 }),
  initial: 'present',
  states: {
    present: {
      description: 'Announced, and its session lives; it may be given splits.',
      on: {
        'peer.vanished': [
          {
            guard: { type: 'hasNoDelay', params: ({ event }) => ({ delayMs: event.delayMs }) },
            target: 'gone',
            actions: 'noteMembership',
          },
          { target: 'withheld', actions: [noteDelay, 'noteMembership'] },
        ],
        'peer.parting': { target: 'gone', actions: 'noteMembership' },
      },
    },
    withheld: {
      description:
        'Vanished without a goodbye; its splits wait for it to come back until the rebalance delay ends.',
      tags: ['waiting', 'alert'],
      entry: armDelay,
      exit: disarmDelay,
      on: {
        'peer.announced': { target: 'present', actions: 'noteMembership' },
        'peer.parting': { target: 'gone', actions: 'noteMembership' },
        'delay.elapsed': { target: 'gone', actions: 'noteMembership' },
      },
    },
    gone: {
      description: 'Left, or missing for longer than the rebalance delay; its splits go to others.',
      on: {
        'peer.announced': { target: 'present', actions: 'noteMembership' },
      },
    },
  },
});
