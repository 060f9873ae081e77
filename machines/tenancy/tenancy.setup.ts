/** The names that the tenancy chart uses, and what its steps note. */
import { setup } from 'xstate';
import type { Tag } from '../chart.ts';
import type { Ending, TenancyContext, TenancyEvent, TenancyInput } from './tenancy.events.ts';

/** Binds the names; the states are in tenancy.machine.ts and tenancy.held.ts. */
export const tenancySetup = setup({
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

const base = tenancySetup;

export const noteWithdrawal = base.assign(({ context, event }) =>
  event.type === 'assignment.withdrawn'
    ? // A stop is never taken back, whatever is said after it.
      { withdrawnFor: context.withdrawnFor === 'stopping' ? ('stopping' as const) : event.reason }
    : {},
);
export const noteWanted = base.assign(({ context }) => ({
  withdrawnFor: context.withdrawnFor === 'stopping' ? ('stopping' as const) : null,
}));
export const noteGrant = base.assign({ isGranted: true, wasGranted: true });
export const endWith = (ending: Ending) => base.assign({ ending });
