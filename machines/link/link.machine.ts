/**
 * This worker's way to the store, as its own calls tell of it.
 *
 * A call that fails is tried again by who made it; the chart hears only of kinds of calls that begin to fail, and of their
 * healing. It sees to it that a worker which cannot work says so, and that one which is refused holds nothing for longer than a
 * lease. Rules: R18, R45, R46. Tests: test/machines.
 */
import { setup } from 'xstate';
import type { Tag } from '../chart.ts';
import type { LinkContext, LinkEvent, LinkInput } from './link.events.ts';

const base = setup({
  types: {
    context: {} as LinkContext,
    input: {} as LinkInput,
    events: {} as LinkEvent,
    tags: {} as Tag,
  },
  actions: {
    /** Logs what fails, since when, and with which error. */
    reportFailing: (_) => undefined,
    /** Logs what is refused. */
    reportDenied: (_) => undefined,
    /** Logs that it works again. */
    reportHealed: (_) => undefined,
    /** Gives session and leadership up, so that others get what this worker cannot work on. */
    abandonAll: (_) => undefined,
  },
  delays: {
    silence: ({ context }) => context.silenceMs,
    patience: ({ context }) => context.patienceMs,
  },
});

const armSilence = base.raise({ type: 'silence.over' }, { delay: 'silence', id: 'silence' });
const disarmSilence = base.cancel('silence');
const armPatience = base.raise({ type: 'patience.over' }, { delay: 'patience', id: 'patience' });
const disarmPatience = base.cancel('patience');
const heal = { target: 'serving', actions: 'reportHealed' } as const;

export const linkMachine = base.createMachine({
  id: 'link',
  description: 'This worker’s way to the store, as its calls tell of it.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({
    instance: input.instance,
    patienceMs: input.leaseDurationMs,
    silenceMs: input.leaseDurationMs / 2,
  }),
  initial: 'serving',
  states: {
    serving: {
      description: 'The store answers, and lets this worker do what it must.',
      on: {
        'call.failed': 'faltering',
        'call.denied': 'denied',
      },
    },
    faltering: {
      description: 'Calls of some kind fail; it may be over in a moment.',
      tags: ['waiting'],
      entry: armSilence,
      exit: disarmSilence,
      on: {
        'calls.healed': 'serving',
        'silence.over': { target: 'failing', actions: 'reportFailing' },
        'call.denied': 'denied',
      },
    },
    failing: {
      description: 'Calls of some kind have failed for half a lease: this worker may be of no use.',
      tags: ['waiting', 'alert'],
      on: {
        'calls.healed': heal,
        'call.denied': 'denied',
      },
    },
    denied: {
      description:
        'The store refuses something that this worker must do; for one lease it is waited out.',
      tags: ['waiting', 'alert'],
      entry: ['reportDenied', armPatience],
      exit: disarmPatience,
      on: {
        'calls.healed': heal,
        'denial.lifted': 'failing',
        'patience.over': { target: 'barred', actions: 'abandonAll' },
      },
    },
    barred: {
      description:
        'Refused for a whole lease: everything was given up, and this worker tries to come back.',
      tags: ['waiting', 'alert'],
      on: { 'worker.returned': heal },
    },
  },
});
