/**
 * One other worker as this one sees it: there, missing for a while, or gone.
 *
 * Every worker keeps these, so that a new leader knows how long a departed worker has been missing (R26). Tests:
 * test/machines.
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
    hasNoDelay: ({ context }) => context.rebalanceDelayMs === 0,
  },
  delays: {
    rebalanceDelay: ({ context }) => context.rebalanceDelayMs,
  },
});

const armDelay = base.raise({ type: 'delay.elapsed' }, { delay: 'rebalanceDelay', id: 'delay' });
const disarmDelay = base.cancel('delay');

export const peerMachine = base.createMachine({
  id: 'peer',
  description: 'Another worker of the job, as this one sees it.',
  options: { maxIterations: 100 },
  context: ({ input }) => input,
  initial: 'present',
  states: {
    present: {
      description: 'Announced, and its session lives; it may be given splits.',
      on: {
        'peer.vanished': [
          { guard: 'hasNoDelay', target: 'gone', actions: 'noteMembership' },
          { target: 'withheld', actions: 'noteMembership' },
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
