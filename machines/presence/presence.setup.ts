/** The names that the presence chart uses. */
import { setup } from 'xstate';
import { rejoinPauseMs, startupBackoffMs } from '../../src/protocol/timing.ts';
import type { Tag } from '../chart.ts';
import type { PresenceContext, PresenceEvent, PresenceInput } from './presence.events.ts';

/** Binds the names; the states are in presence.machine.ts. */
export const presenceSetup = setup({
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
    /** Opens a session for all keys of this worker. */
    openSession: (_) => undefined,
    /** Puts this worker's presence under its session (T2). */
    announce: (_) => undefined,
    /** Marks the presence as parting; sent, not awaited (R16, R17). */
    announceParting: (_) => undefined,
    /** Gives up: too many failures of one startup step. */
    reportExhaustion: (_) => undefined,
    /** Gives up: the store refuses this worker, and it never was in the fleet. */
    reportDenial: (_) => undefined,
  },
  guards: {
    isExhausted: ({ context }) => context.failures + 1 >= context.failuresMax,
    isCurrent: (_, params: { isCurrent: boolean }) => params.isCurrent,
    isDenied: (_, params: { isDenied: boolean }) => params.isDenied,
    hasFailed: (_, params: { hasFailed: boolean }) => params.hasFailed,
  },
  delays: {
    retryPause: ({ context }) => startupBackoffMs(context.failures),
    rejoinPause: ({ context }) => rejoinPauseMs(context.refusals),
  },
});
