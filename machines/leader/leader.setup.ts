/** The names that the leader chart uses: its effects, guards and delays. */
import { setup } from 'xstate';
import type { Tag } from '../chart.ts';
import type { LeaderContext, LeaderEvent, LeaderInput } from './leader.events.ts';

/** Binds the names; the states are in leader.machine.ts and leader.governing.ts. */
export const leaderSetup = setup({
  types: {
    context: {} as LeaderContext,
    input: {} as LeaderInput,
    events: {} as LeaderEvent,
    tags: {} as Tag,
  },
  actions: {
    /** Looks for the plan, and makes it if nothing says that it was lost (R42). */
    seekPlan: (_) => undefined,
    /** Opens a session for the leader key alone (R18). */
    openLeaderSession: (_) => undefined,
    /** Gives the leader session back; an answer to it decides nothing. */
    closeLeaderSession: (_) => undefined,
    /** Creates the leader key and raises the generation, at once (T3). */
    requestElection: (_) => undefined,
    /** Reads what a leader must know before it decides anything. */
    openTerm: (_) => undefined,
    /** Takes the job up where its plan says that it stands. */
    takeUp: (_) => undefined,
    /** From here on nothing is written in this term; says why. */
    endTerm: (_) => undefined,
    /** Deletes the leader key, if it is still this term's (T14). */
    requestResignation: (_) => undefined,
    /** Calls the planner. */
    startPlanner: (_) => undefined,
    /** Stores the planned splits that are not there yet (T4). */
    seedSplits: (_) => undefined,
    /** Writes counts, cursor, finality and the seal (T5). */
    publishPlan: (_) => undefined,
    /** Puts the deleted plan back, one generation on (R42). */
    recreatePlan: (_) => undefined,
    /** Decides who should hold what and writes what changed (T6). */
    balance: (_) => undefined,
    /** Reads every split at one revision (R23). */
    readSplits: (_) => undefined,
    /** Writes the verdict, if the plan has not moved (T13). */
    writeVerdict: (_) => undefined,
  },
  guards: {
    isLeaving: ({ context }) => context.isLeaving,
    isStale: ({ context }) => context.isStale,
    isSealed: (_, params: { isSealed: boolean }) => params.isSealed,
    hasAnswer: (_, params: { hasAnswer: boolean }) => params.hasAnswer,
  },
  delays: {
    candidacyDelay: ({ context }) => context.candidacyDelayMs,
    rest: ({ context }) => context.restMs,
    replanInterval: ({ context }) => context.replanIntervalMs,
    balanceDelay: ({ context }) => context.balanceDelayMs,
    plannerPause: ({ context }) => context.plannerPauseMs,
  },
});
