/**
 * This worker's place in the fleet: from the first look at the store to having left.
 *
 * The way in is taken once, with a budget of tries for each step. The way back, after a lost session or in a store that was
 * replaced, has no budget: it goes on until it is there or the worker leaves. Rules: R3, R8, R11, R13-R17, R41. Tests:
 * test/machines.
 */
import { presenceSetup } from './presence.setup.ts';

const base = presenceSetup;

/** From here on the wait grows no more. */
const REFUSALS_MAX = 6;

const countFailure = base.assign(({ context }) => ({ failures: context.failures + 1 }));
const forgetFailures = base.assign({ failures: 0 });
const countRefusal = base.assign(({ context }) => ({
  refusals: Math.min(REFUSALS_MAX, context.refusals + 1),
}));
const forgetRefusals = base.assign({ refusals: 0 });
const armRetry = base.raise({ type: 'step.retry' }, { delay: 'retryPause', id: 'retry' });
const disarmRetry = base.cancel('retry');
const armRejoin = base.raise({ type: 'rejoin.due' }, { delay: 'rejoinPause', id: 'rejoin' });
const disarmRejoin = base.cancel('rejoin');

const leave = { target: '#presence.parting', actions: 'announceParting' } as const;
const isCurrent = {
  type: 'isCurrent',
  params: ({ event }: { event: { isCurrent: boolean } }) => ({ isCurrent: event.isCurrent }),
} as const;
/** A startup step failed: tried again, or given up once the budget is spent. */
const onFailure = [
  { guard: 'isExhausted', actions: ['reportExhaustion', disarmRetry] },
  { actions: [countFailure, disarmRetry, armRetry] },
] as const;
const steps = {
  'step.failed': onFailure,
  'step.denied': { actions: 'reportDenial' },
} as const;

export const presenceMachine = base.createMachine({
  id: 'presence',
  description: 'This worker’s place in the fleet.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, failures: 0, refusals: 0 }),
  initial: 'probing',
  states: {
    probing: {
      description: 'Checks that the store keeps the promises that fencing depends on.',
      tags: ['waiting'],
      entry: 'probeStore',
      exit: [disarmRetry, forgetFailures],
      on: {
        'probe.passed': 'joining',
        'step.retry': { actions: 'probeStore' },
        'store.reset': { target: 'probing', reenter: true },
        ...steps,
        'worker.stopping': leave,
      },
    },
    joining: {
      description: 'Reads the job’s plan, or creates it, and compares configurations.',
      tags: ['waiting'],
      entry: 'joinJob',
      exit: [disarmRetry, forgetFailures],
      on: {
        'job.joined': 'announcing',
        'job.planless': { actions: [disarmRetry, armRetry] },
        'step.retry': { actions: 'joinJob' },
        'store.reset': { target: 'joining', reenter: true },
        ...steps,
        'worker.stopping': leave,
      },
    },
    announcing: {
      description: 'Puts its name into the fleet, under a session of its own.',
      initial: 'opening',
      exit: forgetFailures,
      on: { 'store.reset': 'joining', 'worker.stopping': leave },
      states: {
        opening: {
          description: 'Asks for the session that everything of this worker will hang on.',
          tags: ['waiting'],
          entry: 'openSession',
          on: {
            ...steps,
            'session.opened': 'putting',
            // Asking again is the session's own business.
            'step.failed': [
              { guard: 'isExhausted', actions: 'reportExhaustion' },
              { actions: countFailure },
            ],
          },
        },
        putting: {
          description: 'Its presence is on its way.',
          tags: ['writing'],
          entry: 'announce',
          exit: disarmRetry,
          on: {
            ...steps,
            'announcement.landed': [
              { guard: isCurrent, target: '#presence.present.announced' },
              { target: '#presence.present.updating', actions: 'announce' },
            ],
            'announcement.missed': { actions: 'announce' },
            'session.expired': 'opening',
            'step.retry': { actions: 'announce' },
          },
        },
      },
    },
    present: {
      description: 'Known to the fleet; may be given splits and may lead.',
      initial: 'announced',
      on: {
        'session.expired': [
          {
            guard: { type: 'isDenied', params: ({ event }) => ({ isDenied: event.isDenied }) },
            target: 'rejoining.barred',
          },
          { target: 'rejoining.opening', actions: forgetRefusals },
        ],
        'store.reset': { target: 'rejoining.joining', actions: forgetRefusals },
        'worker.stopping': leave,
      },
      states: {
        announced: {
          description: 'What the fleet reads of this worker is what it has to say.',
          on: {
            'announcement.due': { target: 'updating', actions: 'announce' },
            'presence.deleted': { target: 'updating', actions: 'announce' },
          },
        },
        updating: {
          description: 'Something changed, or its key was deleted: it is announced again.',
          tags: ['writing'],
          exit: disarmRetry,
          on: {
            'announcement.landed': [
              { guard: isCurrent, target: 'announced' },
              { actions: 'announce' },
            ],
            'announcement.missed': { actions: 'announce' },
            'step.failed': { actions: [disarmRetry, armRetry] },
            'step.retry': { actions: 'announce' },
          },
        },
      },
    },
    rejoining: {
      description: 'The session was lost and every split with it; this worker comes back.',
      tags: ['alert'],
      initial: 'joining',
      on: { 'worker.stopping': leave },
      states: {
        joining: {
          description: 'The store is another one: the plan is looked for again, or made again.',
          tags: ['waiting'],
          entry: 'joinJob',
          exit: disarmRetry,
          on: {
            'job.joined': 'opening',
            'job.planless': { actions: [disarmRetry, armRetry] },
            'step.failed': { actions: [disarmRetry, armRetry] },
            'step.retry': { actions: 'joinJob' },
            'step.denied': 'barred',
            'store.reset': { target: 'joining', reenter: true },
          },
        },
        opening: {
          description: 'Asks for a new session.',
          tags: ['waiting'],
          entry: 'openSession',
          on: {
            'session.opened': 'putting',
            'step.denied': 'barred',
            'store.reset': 'joining',
          },
        },
        putting: {
          description: 'Puts its name into the fleet again, under the new session.',
          tags: ['writing'],
          entry: 'announce',
          exit: disarmRetry,
          on: {
            'announcement.landed': [
              { guard: isCurrent, target: '#presence.present.announced' },
              { target: '#presence.present.updating', actions: 'announce' },
            ],
            'announcement.missed': { actions: 'announce' },
            'step.failed': { actions: [disarmRetry, armRetry] },
            'step.retry': { actions: 'announce' },
            'session.expired': 'opening',
            'step.denied': 'barred',
            'store.reset': 'joining',
          },
        },
        barred: {
          description:
            'The store refuses this worker, which holds nothing any more: it waits before it tries again.',
          tags: ['waiting'],
          entry: [countRefusal, armRejoin],
          exit: disarmRejoin,
          on: { 'rejoin.due': 'joining' },
        },
      },
    },
    parting: {
      description: 'On its way out: claims nothing, leads nothing, hands back what it holds.',
      tags: ['handingBack'],
      on: {
        // What was on its way when the worker was asked to leave does not say so.
        'announcement.landed': [{ guard: isCurrent }, { actions: 'announce' }],
        'departure.finished': [
          {
            guard: {
              type: 'hasFailed',
              params: ({ event }) => ({ hasFailed: event.hasFailed }),
            },
            target: 'failed',
          },
          { target: 'departed' },
        ],
      },
    },
    departed: {
      description: 'Left in order, with nothing held any more.',
      tags: ['ended'],
      type: 'final',
    },
    failed: {
      description: 'Has left because of an error that no retry heals.',
      tags: ['ended', 'alert'],
      type: 'final',
    },
  },
});
