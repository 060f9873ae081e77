/**
 * One split that this worker is named for, from waiting for it to having given it up.
 *
 * One root actor per tenancy. A plain commit is no event here: the chart moves at the pace of ownership. The chart never
 * reads a clock: events bring the time they happened at. Rules: R30-R41. Tests: test/machines.
 */
import { held } from './tenancy.held.ts';
import { endWith, noteGrant, noteWanted, noteWithdrawal, tenancySetup } from './tenancy.setup.ts';

export const tenancyMachine = tenancySetup.createMachine({
  id: 'tenancy',
  description: 'One split on one worker, from being named for it to having given it up.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({
    split: input.split,
    drainDeadlineMs: input.drainDeadlineMs,
    withdrawnFor: null,
    drainStartedAtMs: null,
    timerMs: 0,
    ending: null,
    isGranted: false,
    wasGranted: false,
  }),
  initial: 'awaiting',
  states: {
    awaiting: {
      description:
        'Named for this worker, but another owner still has the lease or every slot is taken.',
      tags: ['waiting', 'wanted'],
      on: {
        'claim.due': { target: 'claiming', actions: 'requestClaim' },
        'assignment.withdrawn': 'dismissed',
        'split.ended': 'dismissed',
        'session.expired': 'dismissed',
      },
    },
    claiming: {
      description: 'The claim is on its way; until it is answered nobody knows who owns the split.',
      initial: 'wanted',
      on: { 'session.expired': 'dismissed' },
      states: {
        wanted: {
          description: 'If the claim lands, the split is worked on.',
          tags: ['writing', 'wanted'],
          on: {
            'assignment.withdrawn': { target: 'unwanted', actions: noteWithdrawal },
            'claim.won': { target: '#tenancy.held.owned', actions: [noteGrant, 'grantSplit'] },
            'claim.lost': '#tenancy.awaiting',
          },
        },
        unwanted: {
          description: 'No longer named for it: if the claim lands, the split is given back (R30).',
          tags: ['writing'],
          on: {
            'assignment.withdrawn': { actions: noteWithdrawal },
            'assignment.regained': { guard: 'mayCancel', target: 'wanted', actions: noteWanted },
            'claim.won': {
              target: '#tenancy.held.closing',
              actions: [endWith('release'), 'requestEnding'],
            },
            'claim.lost': '#tenancy.dismissed',
          },
        },
      },
    },
    held,
    dismissed: {
      description: 'Never held: no longer wanted here, ended elsewhere, or the session went first.',
      tags: ['ended'],
      type: 'final',
    },
    released: {
      description: 'Handed back in order; the next owner goes on from the last commit.',
      tags: ['ended'],
      type: 'final',
    },
    completed: {
      description: 'Done for good; nobody works on it again.',
      tags: ['ended'],
      type: 'final',
    },
    failed: {
      description: 'The handler failed; an attempt is spent and the split will be tried again.',
      tags: ['ended'],
      type: 'final',
    },
    quarantined: {
      description: 'Out of attempts: set aside until an operator puts it back.',
      tags: ['ended', 'alert'],
      type: 'final',
    },
    lostFenced: {
      description: 'Another owner has taken the split; nothing more of this one is written.',
      tags: ['ended', 'alert'],
      type: 'final',
    },
    lostStarved: {
      description:
        'The lease is gone: the session could not be renewed in time, or the key was deleted.',
      tags: ['ended', 'alert'],
      type: 'final',
    },
    lostRevoked: {
      description: 'Taken from a handler that did not hand it back in time.',
      tags: ['ended', 'alert'],
      type: 'final',
    },
  },
});
