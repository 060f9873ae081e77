/**
 * One range of the store as this worker follows it: read at a revision, watched from the next one, and verified from time to
 * time beside the watch.
 *
 * Rules: R8, R9, R24. Tests: test/machines.
 */
import { setup } from 'xstate';
import { readPauseMs } from '../../src/protocol/timing.ts';
import type { Tag } from '../chart.ts';
import type { FollowContext, FollowEvent, FollowInput } from './follow.events.ts';

/** From here on the pause grows no more. */
const FAILURES_MAX = 5;

const base = setup({
  types: {
    context: {} as FollowContext,
    input: {} as FollowInput,
    events: {} as FollowEvent,
    tags: {} as Tag,
  },
  actions: {
    /** Reads the whole range at one revision. */
    list: (_) => undefined,
    /** Watches from the revision after the listing. */
    watch: (_) => undefined,
    /** Stops watching. */
    unwatch: (_) => undefined,
    /** Compares what is known with what is there, and takes in what differs. */
    verify: (_) => undefined,
  },
  delays: {
    readPause: ({ context }) => readPauseMs(context.failures),
  },
});

const countFailure = base.assign(({ context }) => ({
  failures: Math.min(FAILURES_MAX, context.failures + 1),
}));
const forgetFailures = base.assign({ failures: 0 });
const armListing = base.raise({ type: 'listing.due' }, { delay: 'readPause', id: 'listing' });
const disarmListing = base.cancel('listing');
const close = { target: '#follow.closed', actions: 'unwatch' } as const;
const listAgain = { target: '#follow.listing', actions: 'unwatch' } as const;

export const followMachine = base.createMachine({
  id: 'follow',
  description: 'One range of the store, as this worker follows it.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, failures: 0 }),
  initial: 'listing',
  states: {
    listing: {
      description: 'Reads the whole range; until it is there nothing is decided by it.',
      tags: ['waiting'],
      entry: 'list',
      on: {
        'listing.arrived': { target: 'watching', actions: [forgetFailures, 'watch'] },
        'listing.failed': 'pausing',
        'store.reset': { target: 'listing', reenter: true },
        'follow.closed': close,
      },
    },
    pausing: {
      description: 'The reading failed; it is tried again after a moment.',
      tags: ['waiting', 'alert'],
      entry: [countFailure, armListing],
      exit: disarmListing,
      on: {
        'listing.due': 'listing',
        'store.reset': 'listing',
        'follow.closed': close,
      },
    },
    watching: {
      description: 'Every change is told as it happens.',
      initial: 'quiet',
      on: {
        'watch.compacted': listAgain,
        'watch.refused': 'refused',
        'store.reset': listAgain,
        'follow.closed': close,
      },
      states: {
        quiet: {
          description: 'What is known was verified; the next check comes by itself.',
          on: { 'check.due': 'checking' },
        },
        checking: {
          description: 'Compares what is known with what is there: the backstop for lost events.',
          tags: ['waiting'],
          entry: 'verify',
          on: {
            'check.passed': 'quiet',
            'check.failed': 'quiet',
          },
        },
      },
    },
    refused: {
      description:
        'The store refuses the watch: what changes is not heard until it takes the watch again.',
      tags: ['alert'],
      on: {
        // What happened meanwhile is delivered by the watch, unless it was compacted away.
        'watch.accepted': 'watching.checking',
        'watch.compacted': listAgain,
        'store.reset': listAgain,
        'follow.closed': close,
      },
    },
    closed: {
      description: 'Nothing is followed any more.',
      tags: ['ended'],
      type: 'final',
    },
  },
});
