/**
 * This worker's place in the fleet: from the first look at the store to having left.
 *
 * Rules: R3, R11, R13-R17, R41. Tests: test/machines.
 */
import { setup } from 'xstate';
import { startupBackoffMs } from '../../src/protocol/timing.ts';
import type { Tag } from '../chart.ts';
import type { PresenceContext, PresenceEvent, PresenceInput } from './presence.events.ts';

const base = setup({
  types: {
    context: {} as PresenceContext,
    input: {} as PresenceInput,
    events: {} as PresenceEvent,
    tags: {} as Tag,
  },
  actions: {
    /** Tries the store's conditional writes in a private key; a store that lies is fatal. */
    probeStore: (_) => undefined,
    /** Reads or creates the plan and compares fingerprints (T1). */
    joinJob: (_) => undefined,
    /** Opens a fresh session for all keys of this worker. */
    openSession: (_) => undefined,
    /** Puts this worker's presence under its session (T2). */
    announce: (_) => undefined,
    /** Marks the presence as parting; sent, not awaited (R16, R17). */
    announceParting: (_) => undefined,
    /** Gives up: too many failures of one startup step. */
    reportExhaustion: (_) => undefined,
  },
  guards: {
    isExhausted: ({ context }) => context.failures + 1 >= context.failuresMax,
  },
  delays: {
    retryPause: ({ context }) => startupBackoffMs(context.failures),
  },
});

const countFailure = base.assign(({ context }) => ({ failures: context.failures + 1 }));
const forgetFailures = base.assign({ failures: 0 });
const armRetry = base.raise({ type: 'step.retry' }, { delay: 'retryPause', id: 'retry' });
const disarmRetry = base.cancel('retry');
const leave = { target: 'parting', actions: 'announceParting' } as const;
const onFailure = [
  { guard: 'isExhausted', target: 'failed', actions: 'reportExhaustion' },
  { actions: [countFailure, disarmRetry, armRetry] },
] as const;

export const presenceMachine = base.createMachine({
  id: 'presence',
  description: 'This worker’s place in the fleet.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({ ...input, failures: 0 }),
  initial: 'probing',
  states: {
    probing: {
      description: 'Checks that the store keeps the promises that fencing depends on.',
      tags: ['waiting'],
      entry: 'probeStore',
      exit: [disarmRetry, forgetFailures],
      on: {
        'probe.passed': 'joining',
        'step.failed': onFailure,
        'step.retry': { actions: 'probeStore' },
        'worker.stopping': leave,
        'fatal.raised': 'failed',
      },
    },
    joining: {
      description: 'Reads the job’s plan, or creates it, and compares configurations.',
      tags: ['waiting'],
      entry: 'joinJob',
      exit: [disarmRetry, forgetFailures],
      on: {
        'job.joined': { target: 'announcing', actions: 'openSession' },
        'step.failed': onFailure,
        'step.retry': { actions: 'joinJob' },
        'worker.stopping': leave,
        'fatal.raised': 'failed',
      },
    },
    announcing: {
      description: 'Puts its name into the fleet, under a session of its own.',
      tags: ['writing'],
      exit: [disarmRetry, forgetFailures],
      on: {
        'session.opened': { actions: 'announce' },
        'announcement.landed': 'present',
        'session.expired': { actions: 'openSession' },
        'step.failed': onFailure,
        'step.retry': { actions: 'openSession' },
        'worker.stopping': leave,
        'fatal.raised': 'failed',
      },
    },
    present: {
      description: 'Known to the fleet; may be given splits and may lead.',
      on: {
        'announcement.due': { actions: 'announce' },
        'presence.deleted': { actions: 'announce' },
        'session.expired': 'rejoining',
        'worker.stopping': leave,
        'fatal.raised': 'failed',
      },
    },
    rejoining: {
      description: 'The session was lost and every split with it; a new session is being opened.',
      tags: ['waiting', 'alert'],
      entry: 'openSession',
      on: {
        'session.opened': { target: 'announcing', actions: 'announce' },
        'worker.stopping': leave,
        'fatal.raised': 'failed',
      },
    },
    parting: {
      description: 'On its way out: claims nothing, leads nothing, hands back what it holds.',
      tags: ['handingBack'],
      on: {
        'departure.finished': 'departed',
        'fatal.raised': 'failed',
      },
    },
    departed: {
      description: 'Left in order, with nothing held any more.',
      tags: ['ended'],
      type: 'final',
    },
    failed: {
      description: 'Stopped by an error that no retry heals.',
      tags: ['ended', 'alert'],
      type: 'final',
    },
  },
});
