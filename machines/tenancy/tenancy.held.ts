/**
 * A split in hand: owned, asked back, and given up by a last write.
 *
 * Rules: R4, R12, R15, R31-R38, R41.
 */
import type { Ending } from './tenancy.events.ts';
import { endWith, noteWanted, noteWithdrawal, tenancySetup } from './tenancy.setup.ts';

const base = tenancySetup;

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
const noteLoss = base.assign({ isGranted: false });
const armTimer = base.raise({ type: 'drain.expired' }, { delay: 'drainTimer', id: 'drain' });
const disarmTimer = base.cancel('drain');

/** The last write goes out. */
const closeWith = (ending: Ending) =>
  ({ target: 'closing', actions: [endWith(ending), 'requestEnding'] }) as const;
/** The same, taken from the handler. */
const forceOut = {
  target: 'closing',
  actions: [endWith('force'), 'loseGrant', noteLoss, 'requestEnding'],
} as const;
/** Gone without the handler's doing; it is told once, if it was ever told that it had the split. */
const loseTo = <Target extends string>(target: Target) =>
  ({ target: `#tenancy.${target}`, actions: ['loseGrant', noteLoss] }) as const;

/** What the service may end a tenancy with, whatever was asked of it. */
const endings = {
  'drain.finished': closeWith('release'),
  'split.complete': closeWith('complete'),
  'split.fail': closeWith('fail'),
  'split.release': closeWith('release'),
} as const;
/** What others do to a split that is worked on. */
const mishaps = {
  'tenancy.fenced': loseTo('lostFenced'),
  'lease.deleted': loseTo('lostStarved'),
} as const;
const drain = {
  target: 'draining',
  actions: [noteWithdrawal, noteDrainStart, armTimer, 'markLease', 'askForSplit'],
} as const;

const closing = base.createStateConfig({
  description: 'The last write of this tenancy is decided, and nothing calls it back.',
  initial: 'queued',
  on: {
    'ending.landed': [
      { guard: 'completes', target: '#tenancy.completed' },
      { guard: 'releases', target: '#tenancy.released' },
      { guard: 'isForced', target: '#tenancy.lostRevoked' },
      {
        guard: { type: 'quarantines', params: ({ event }) => ({ quarantined: event.quarantined }) },
        target: '#tenancy.quarantined',
      },
      { target: '#tenancy.failed' },
    ],
    'ending.refused': loseTo('lostFenced'),
  },
  states: {
    queued: {
      description: 'It stands in line behind the write that is on its way.',
      tags: ['waiting'],
      on: {
        'ending.sent': 'sent',
        'tenancy.fenced': loseTo('lostFenced'),
      },
    },
    sent: {
      description: 'It is on its way; its answer decides, not who is seen to have the split (R4).',
      tags: ['writing'],
      on: { 'ending.unanswered': 'unanswered' },
    },
    unanswered: {
      description:
        'It was sent and not answered: it may have landed. The same write is sent until it is answered.',
      tags: ['alert', 'mayHaveLanded'],
      on: { 'ending.sent': 'sent' },
    },
  },
});

export const held = base.createStateConfig({
  description:
    'The split is this worker’s: its record names this worker, its lease hangs on this session.',
  tags: ['held'],
  initial: 'owned',
  on: {
    'session.expired': loseTo('lostStarved'),
    // A write that was on its way found no lease (R47).
    'tenancy.starved': loseTo('lostStarved'),
  },
  states: {
    owned: {
      description: 'The handler works on the split and commits.',
      tags: ['mayCommit', 'wanted'],
      on: { ...endings, ...mishaps, 'assignment.withdrawn': drain },
    },
    draining: {
      description:
        'Asked to hand the split back: the handler finishes what it started and takes nothing new.',
      tags: ['mayCommit', 'handingBack'],
      exit: disarmTimer,
      on: {
        ...endings,
        ...mishaps,
        'assignment.withdrawn': { actions: noteWithdrawal },
        'assignment.regained': {
          guard: 'mayCancel',
          target: 'cancelledDrain',
          actions: [noteWanted, 'markLease', 'withdrawRequest'],
        },
        'drain.declined': forceOut,
        'drain.expired': forceOut,
      },
    },
    cancelledDrain: {
      description:
        'The split may stay after all, but its handler had begun to stop; silence gives it up.',
      tags: ['mayCommit', 'handingBack', 'wanted'],
      entry: [noteSilence, armTimer],
      exit: disarmTimer,
      on: {
        ...endings,
        ...mishaps,
        'assignment.withdrawn': drain,
        'progress.landed': { actions: [disarmTimer, armTimer] },
        'intake.resumed': { target: 'owned', actions: [forgetDrain, 'markLease'] },
        'drain.declined': { target: 'owned', actions: [forgetDrain, 'markLease'] },
        'drain.expired': forceOut,
      },
    },
    closing,
  },
});
