/**
 * Leaving the fleet, from whatever state, within the drain deadline and one operation timeout.
 *
 * Each part has a bound of its own, so that whatever is not answered, the sessions are closed, and last: closing one first
 * reads as a death. The chart reads no clock: events bring the time they happened at. Rules: R16, R17. Tests: test/machines.
 */
import { setup } from 'xstate';
import type { Tag } from '../chart.ts';
import type { DepartureContext, DepartureEvent, DepartureInput } from './departure.events.ts';

const base = setup({
  types: {
    context: {} as DepartureContext,
    input: {} as DepartureInput,
    events: {} as DepartureEvent,
    tags: {} as Tag,
  },
  actions: {
    /** Says that this worker is leaving, and asks every split back. */
    beginDrain: (_) => undefined,
    /** Takes what was not handed back in time. */
    forceAll: (_) => undefined,
    /** Gives leadership up; nothing more is led. */
    resign: (_) => undefined,
    /** Deletes the presence, and waits for the answer to the resignation. */
    sayGoodbye: (_) => undefined,
    /** Gives both sessions back. */
    closeSessions: (_) => undefined,
    /** Ends everything that runs, and hands out the report. */
    finish: (_) => undefined,
  },
  delays: {
    timer: ({ context }) => context.timerMs,
  },
});

/** When the event happened: it says so, or it is the timer of the present state. */
const atMsOf = (context: DepartureContext, event: DepartureEvent): number =>
  'atMs' in event ? event.atMs : context.atMs + context.timerMs;
const noteStart = base.assign(({ event }) =>
  event.type === 'leave.asked'
    ? {
        drainMs: event.drainMs,
        settleMs: event.settleMs,
        atMs: event.atMs,
        timerMs: event.drainMs,
      }
    : {},
);
const noteSettling = base.assign(({ context, event }) => {
  const atMs = atMsOf(context, event);
  return { settlesAtMs: atMs, atMs, timerMs: context.settleMs / 2 };
});
/** A part ends at its share of the time that follows the drain, whenever it began. */
const noteShare = (share: number) =>
  base.assign(({ context, event }) => {
    const atMs = atMsOf(context, event);
    const endsAtMs = context.settlesAtMs + context.settleMs * share;
    return { atMs, timerMs: Math.max(0, endsAtMs - atMs) };
  });
const noteGoodbye = noteShare(3 / 4);
const noteClosing = noteShare(1);
const armDrain = base.raise({ type: 'drain.expired' }, { delay: 'timer', id: 'drain' });
const disarmDrain = base.cancel('drain');
const armSettling = base.raise({ type: 'settling.expired' }, { delay: 'timer', id: 'settling' });
const disarmSettling = base.cancel('settling');
const armGoodbye = base.raise({ type: 'goodbye.expired' }, { delay: 'timer', id: 'goodbye' });
const disarmGoodbye = base.cancel('goodbye');
const armClosing = base.raise({ type: 'closing.expired' }, { delay: 'timer', id: 'closing' });
const disarmClosing = base.cancel('closing');

export const departureMachine = base.createMachine({
  id: 'departure',
  description: 'This worker’s way out of the fleet.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({
    ...input,
    drainMs: 0,
    settleMs: 0,
    settlesAtMs: 0,
    atMs: 0,
    timerMs: 0,
  }),
  initial: 'staying',
  states: {
    staying: {
      description: 'Nobody has asked this worker to leave.',
      on: {
        'leave.asked': { target: 'draining', actions: [noteStart, 'beginDrain'] },
        'leave.skipped': { target: 'gone', actions: 'finish' },
      },
    },
    draining: {
      description: 'Handlers finish what they have begun and hand their splits back.',
      tags: ['handingBack'],
      entry: armDrain,
      exit: disarmDrain,
      on: {
        'drain.finished': { target: 'settling', actions: [noteSettling, 'resign'] },
        'drain.expired': { target: 'settling', actions: [noteSettling, 'forceAll', 'resign'] },
      },
    },
    settling: {
      description: 'No handler writes any more; the last writes of the splits are answered.',
      tags: ['writing'],
      entry: armSettling,
      exit: disarmSettling,
      on: {
        'tenancies.ended': { target: 'leaving', actions: [noteGoodbye, 'sayGoodbye'] },
        'settling.expired': { target: 'leaving', actions: [noteGoodbye, 'sayGoodbye'] },
      },
    },
    leaving: {
      description: 'Takes its name out of the fleet, and the leader key if it led.',
      tags: ['writing'],
      entry: armGoodbye,
      exit: disarmGoodbye,
      on: {
        'goodbye.answered': { target: 'closing', actions: [noteClosing, 'closeSessions'] },
        'goodbye.expired': { target: 'closing', actions: [noteClosing, 'closeSessions'] },
      },
    },
    closing: {
      description: 'Gives its sessions back, last of all; what is unanswered has little time left.',
      tags: ['writing'],
      initial: 'sessions',
      entry: armClosing,
      exit: disarmClosing,
      on: { 'closing.expired': { target: 'gone', actions: 'finish' } },
      states: {
        sessions: {
          description: 'Waits until the store has closed both sessions.',
          on: { 'sessions.closed': 'answers' },
        },
        answers: {
          description: 'Waits for the answers that are still missing.',
          on: { 'tenancies.ended': { target: '#departure.gone', actions: 'finish' } },
        },
      },
    },
    gone: {
      description: 'Has left; nothing of this worker runs any more.',
      tags: ['ended'],
      type: 'final',
    },
  },
});
