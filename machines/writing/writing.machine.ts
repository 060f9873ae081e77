/**
 * One lane of writes: at most one batch of transactions is on its way in it.
 *
 * While answers come the lane stays in `writing`, batch after batch, so that a commit costs no chart event. An unknown
 * outcome is settled by sending the same transactions again (R1), never by reading. Tests: test/machines.
 */
import { setup } from 'xstate';
import type { Tag } from '../chart.ts';
import type { WritingContext, WritingEvent, WritingInput } from './writing.events.ts';

/** Doublings of the pause between two sends. */
const DOUBLINGS_MAX = 10;

const base = setup({
  types: {
    context: {} as WritingContext,
    input: {} as WritingInput,
    events: {} as WritingEvent,
    tags: {} as Tag,
  },
  actions: {
    /** Sends what is unsettled in this lane again, byte for byte; drops what no longer matters. */
    resendBatch: (_) => undefined,
  },
  delays: {
    resendPause: ({ context }) =>
      Math.min(context.resendMsMax, context.resendMs * 2 ** (context.unanswered - 1)),
  },
});

const countUnanswered = base.assign(({ context }) => ({
  unanswered: Math.min(DOUBLINGS_MAX, context.unanswered + 1),
}));
const forgetUnanswered = base.assign({ unanswered: 0 });
const armResend = base.raise({ type: 'resend.due' }, { delay: 'resendPause', id: 'resend' });
const disarmResend = base.cancel('resend');

export const writingMachine = base.createMachine({
  id: 'writing',
  description: 'One lane of writes to the store.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, unanswered: 0 }),
  initial: 'idle',
  states: {
    idle: {
      description: 'Nothing has been written here for a while.',
      tags: ['waiting'],
      on: {
        'batch.submitted': 'writing',
        'lane.closed': 'closed',
      },
    },
    writing: {
      description: 'Batches go out one after the other, and each is answered.',
      tags: ['writing'],
      on: {
        'batch.unanswered': 'settling',
        'lane.rested': 'idle',
        'lane.closed': 'closed',
      },
    },
    settling: {
      description:
        'A batch was sent and not answered: it may have landed. The same batch is sent until it is answered.',
      tags: ['writing', 'alert'],
      entry: [countUnanswered, armResend],
      exit: [disarmResend, forgetUnanswered],
      on: {
        'resend.due': { actions: 'resendBatch' },
        'batch.unanswered': { actions: [countUnanswered, disarmResend, armResend] },
        'batch.answered': 'writing',
        'batch.abandoned': 'writing',
        'lane.closed': 'closed',
      },
    },
    closed: {
      description: 'The worker has left; nothing is written any more.',
      tags: ['ended'],
      type: 'final',
    },
  },
});
