/**
 * One session of a worker: everything ephemeral that the worker has in the store hangs on it. A worker has two, one for
 * itself and one for leading.
 *
 * Whoever wants a session is told of every end of that wish: opened, or not yet and why. The deadline itself is checked by
 * who holds the clock, at every use (R10); the chart hears that it passed. Rules: R4, R8, R10, R11, R18. Tests: test/machines.
 */
import { setup } from 'xstate';
import type { Tag } from '../chart.ts';
import type { SessionContext, SessionEvent, SessionInput } from './session.events.ts';

const base = setup({
  types: {
    context: {} as SessionContext,
    input: {} as SessionInput,
    events: {} as SessionEvent,
    tags: {} as Tag,
  },
  actions: {
    /** Asks the store for a session under a fresh id. */
    openSession: (_) => undefined,
    /** Asks again under the same id while that is young; asking twice is no harm (R4). */
    openAgain: (_) => undefined,
    /** Lets go of the id that was asked for: it may have been opened. */
    discardOpening: (_) => undefined,
    /** Tells who wanted it that it is open. */
    tellOpened: (_) => undefined,
    /** Tells who wanted it why it is not open yet; more tries follow. */
    tellUnopened: (_) => undefined,
    /** Asks the store for more time. */
    renew: (_) => undefined,
    /** Tells everybody that nothing of the session may be used any more (R11). */
    tellExpired: (_) => undefined,
    /** Tells the store in the background that the session is over. */
    revoke: (_) => undefined,
    /** Gives the session back, and hears the answer. */
    closeSession: (_) => undefined,
  },
  delays: {
    timer: ({ context }) => context.timerMs,
  },
});

const noteRenewal = base.assign(({ event }) =>
  event.type === 'opening.granted' || event.type === 'renewal.answered'
    ? { timerMs: event.renewMs }
    : {},
);
const notePause = base.assign(({ event }) =>
  event.type === 'opening.failed' || event.type === 'renewal.failed'
    ? { timerMs: event.pauseMs }
    : {},
);
const armOpening = base.raise({ type: 'opening.due' }, { delay: 'timer', id: 'opening' });
const disarmOpening = base.cancel('opening');
const armRenewal = base.raise({ type: 'renewal.due' }, { delay: 'timer', id: 'renewal' });
const disarmRenewal = base.cancel('renewal');

/** An end that the store does not know of yet. */
const fence = { target: 'closed', actions: ['tellExpired', 'revoke'] } as const;
/** An end that the store has told of. */
const lose = { target: 'closed', actions: 'tellExpired' } as const;

export const sessionMachine = base.createMachine({
  id: 'session',
  description: 'A session in the store, and for how long it may be believed in.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, timerMs: 0 }),
  initial: 'closed',
  states: {
    closed: {
      description: 'There is no session, and none is wanted.',
      on: { 'session.wanted': 'opening' },
    },
    opening: {
      description: 'A session is asked for, again and again until the store grants it.',
      tags: ['waiting'],
      entry: 'openSession',
      exit: disarmOpening,
      on: {
        'opening.granted': { target: 'open', actions: [noteRenewal, 'tellOpened'] },
        'opening.late': { target: 'opening', reenter: true, actions: 'discardOpening' },
        'opening.failed': { actions: [notePause, disarmOpening, armOpening, 'tellUnopened'] },
        'opening.due': { actions: 'openAgain' },
        // What was asked of the store before is nobody's answer any more: the wish stands, and is put to the new one.
        'store.reset': { target: 'opening', reenter: true },
        'session.unwanted': { target: 'closing', actions: 'closeSession' },
        'session.released': { target: 'closed', actions: 'discardOpening' },
      },
    },
    open: {
      description: 'The session is open, and what hangs on it is this worker’s.',
      initial: 'kept',
      on: {
        'session.wanted': { actions: 'tellOpened' },
        'session.gone': lose,
        'store.reset': lose,
        'deadline.passed': fence,
        'session.abandoned': fence,
        'session.unwanted': { target: 'closing', actions: 'closeSession' },
      },
      states: {
        kept: {
          description: 'Renewed in time; the next renewal is due a third of a lease later.',
          entry: armRenewal,
          exit: disarmRenewal,
          on: {
            'renewal.due': 'renewing',
            'session.released': 'lapsing',
          },
        },
        renewing: {
          description: 'A renewal is on its way.',
          tags: ['writing'],
          entry: 'renew',
          on: {
            'renewal.answered': { target: 'kept', actions: noteRenewal },
            'renewal.failed': { target: 'late', actions: notePause },
            'session.released': 'lapsing',
          },
        },
        late: {
          description:
            'The last renewal was not answered; it is tried again, and the time that is left runs out.',
          tags: ['writing', 'alert'],
          entry: armRenewal,
          exit: disarmRenewal,
          on: {
            'renewal.due': { actions: 'renew' },
            'renewal.answered': { target: 'kept', actions: noteRenewal },
            'renewal.failed': { actions: [notePause, disarmRenewal, armRenewal] },
            'session.released': 'lapsing',
          },
        },
        lapsing: {
          description: 'Renewed no more: it is believed in until its time is up (R18).',
          tags: ['waiting'],
          on: {},
        },
      },
    },
    closing: {
      description: 'Given back; the store’s answer is awaited.',
      tags: ['writing'],
      on: {
        'session.wanted': 'opening',
        'closing.answered': 'closed',
      },
    },
  },
});
