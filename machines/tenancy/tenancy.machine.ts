/**
 * One split that this worker is named for, from waiting for it to having given it up.
 *
 * One root actor per tenancy. A plain commit is no event here: the chart moves at the pace of ownership. The chart never
 * reads a clock: events bring the time they happened at. Rules: R30-R41. Tests: test/machines.
 */
import { setup } from 'xstate';
import type { Tag } from '../chart.ts';
import type { Ending, TenancyContext, TenancyEvent, TenancyInput } from './tenancy.events.ts';

const base = setup({
  types: {
    context: {} as TenancyContext,
    input: {} as TenancyInput,
    events: {} as TenancyEvent,
    tags: {} as Tag,
  },
  actions: {
    /** Claims the split: epoch and lease in one transaction (T7). */
    requestClaim: (_) => undefined,
    /** Hands the split to the service. */
    grantSplit: (_) => undefined,
    /** Asks the service to stop at a safe boundary. */
    askForSplit: (_) => undefined,
    /** Tells the service that the split may stay after all. */
    withdrawRequest: (_) => undefined,
    /** Tells the service to stop now; nothing it writes is accepted from here on. */
    loseGrant: (_) => undefined,
    /** Shows the state on the lease key (T11); losing it matters to nobody (R32). */
    markLease: (_) => undefined,
    /** Writes the end: release, complete or fail (T8, T9, T10). */
    requestEnding: (_) => undefined,
  },
  guards: {
    isWanted: ({ context }) => context.withdrawnFor === null,
    mayCancel: ({ context }) => context.withdrawnFor !== 'stopping',
    completes: ({ context }) => context.ending === 'complete',
    releases: ({ context }) => context.ending === 'release',
    isForced: ({ context }) => context.ending === 'force',
    quarantines: (_, params: { quarantined: boolean }) => params.quarantined,
  },
  delays: {
    drainTimer: ({ context }) => context.timerMs,
  },
});

const noteWithdrawal = base.assign(({ context, event }) =>
  event.type === 'assignment.withdrawn'
    ? // A stop is never taken back, whatever is said after it.
      { withdrawnFor: context.withdrawnFor === 'stopping' ? ('stopping' as const) : event.reason }
    : {},
);
const noteWanted = base.assign(({ context }) => ({
  withdrawnFor: context.withdrawnFor === 'stopping' ? ('stopping' as const) : null,
}));
/** The deadline is absolute from the first request (R33); a request after a cancel keeps the first start (R34). */
const noteDrainStart = base.assign(({ context, event }) => {
  if (event.type !== 'assignment.withdrawn') return {};
  const startedAtMs = context.drainStartedAtMs ?? event.atMs;
  return {
    drainStartedAtMs: startedAtMs,
    timerMs: Math.max(0, startedAtMs + context.drainDeadlineMs - event.atMs),
  };
});
const noteSilence = base.assign(({ context }) => ({ timerMs: context.drainDeadlineMs }));
const forgetDrain = base.assign({ drainStartedAtMs: null });
const armTimer = base.raise({ type: 'drain.expired' }, { delay: 'drainTimer', id: 'drain' });
const disarmTimer = base.cancel('drain');
const endWith = (ending: Ending) => base.assign({ ending });
/** The last write goes out. */
const closeWith = (ending: Ending) =>
  ({ target: 'closing', actions: [endWith(ending), 'requestEnding'] }) as const;
/** The same, taken from the handler. */
const forceOut = {
  target: 'closing',
  actions: [endWith('force'), 'loseGrant', 'requestEnding'],
} as const;

export const tenancyMachine = base.createMachine({
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
  }),
  initial: 'awaiting',
  states: {
    awaiting: {
      description:
        'Named for this worker, but another owner still has the lease or every lane is busy.',
      tags: ['waiting'],
      on: {
        'claim.due': { target: 'claiming', actions: 'requestClaim' },
        'assignment.withdrawn': 'dismissed',
        'split.ended': 'dismissed',
        'session.expired': 'dismissed',
      },
    },
    claiming: {
      description: 'The claim is on its way; until it is answered nobody knows who owns the split.',
      tags: ['writing'],
      on: {
        'assignment.withdrawn': { actions: noteWithdrawal },
        'assignment.regained': { actions: noteWanted },
        'claim.won': [
          { guard: 'isWanted', target: 'held.owned', actions: 'grantSplit' },
          { target: 'held.closing', actions: [endWith('release'), 'requestEnding'] },
        ],
        'claim.lost': [{ guard: 'isWanted', target: 'awaiting' }, { target: 'dismissed' }],
        'session.expired': 'dismissed',
      },
    },
    held: {
      description:
        'The split is this worker’s: its record names this worker, its lease hangs on this session.',
      tags: ['held'],
      initial: 'owned',
      on: {
        'tenancy.fenced': { target: 'lostFenced', actions: 'loseGrant' },
        'session.expired': { target: 'lostStarved', actions: 'loseGrant' },
      },
      states: {
        owned: {
          description: 'The handler works on the split and commits.',
          tags: ['mayCommit'],
          on: {
            'assignment.withdrawn': {
              target: 'draining',
              actions: [noteWithdrawal, noteDrainStart, armTimer, 'markLease', 'askForSplit'],
            },
            'split.complete': closeWith('complete'),
            'split.fail': closeWith('fail'),
            'split.release': closeWith('release'),
            'lease.deleted': { target: '#tenancy.lostStarved', actions: 'loseGrant' },
          },
        },
        draining: {
          description:
            'Asked to hand the split back: the handler finishes what it started and takes nothing new.',
          tags: ['mayCommit', 'handingBack'],
          exit: disarmTimer,
          on: {
            'assignment.withdrawn': { actions: noteWithdrawal },
            'assignment.regained': {
              guard: 'mayCancel',
              target: 'cancelledDrain',
              actions: [noteWanted, 'markLease', 'withdrawRequest'],
            },
            'drain.finished': closeWith('release'),
            'split.complete': closeWith('complete'),
            'split.fail': closeWith('fail'),
            'split.release': closeWith('release'),
            'drain.declined': forceOut,
            'drain.expired': forceOut,
            'lease.deleted': { target: '#tenancy.lostStarved', actions: 'loseGrant' },
          },
        },
        cancelledDrain: {
          description:
            'The split may stay after all, but its handler had begun to stop; silence gives it up.',
          tags: ['mayCommit', 'handingBack'],
          entry: [noteSilence, armTimer],
          exit: disarmTimer,
          on: {
            'progress.landed': { actions: [disarmTimer, armTimer] },
            'intake.resumed': { target: 'owned', actions: [forgetDrain, 'markLease'] },
            'drain.declined': { target: 'owned', actions: [forgetDrain, 'markLease'] },
            'assignment.withdrawn': {
              target: 'draining',
              actions: [noteWithdrawal, noteDrainStart, armTimer, 'markLease', 'askForSplit'],
            },
            'drain.finished': closeWith('release'),
            'split.complete': closeWith('complete'),
            'split.fail': closeWith('fail'),
            'split.release': closeWith('release'),
            'drain.expired': forceOut,
            'lease.deleted': { target: '#tenancy.lostStarved', actions: 'loseGrant' },
          },
        },
        closing: {
          description: 'The last write of this tenancy is on its way, and nothing calls it back.',
          tags: ['writing'],
          on: {
            'ending.landed': [
              { guard: 'completes', target: '#tenancy.completed' },
              { guard: 'releases', target: '#tenancy.released' },
              { guard: 'isForced', target: '#tenancy.lostRevoked' },
              {
                guard: {
                  type: 'quarantines',
                  params: ({ event }) => ({ quarantined: event.quarantined }),
                },
                target: '#tenancy.quarantined',
              },
              { target: '#tenancy.failed' },
            ],
          },
        },
      },
    },
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
