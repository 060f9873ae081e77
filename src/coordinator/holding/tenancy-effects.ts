/** What the tenancy chart's actions do. Provided once for all tenancies of a worker. */
import type {
  Ending,
  TenancyContext,
  TenancyEvent,
} from '../../../machines/tenancy/tenancy.events.ts';
import { tenancyMachine } from '../../../machines/tenancy/tenancy.machine.ts';
import type { LossReason } from '../api/api.ts';
import { bytesOfBase64, progressOf } from '../api/bytes.ts';
import type { Claims } from './claims.ts';
import type { Core } from '../link/core.ts';
import type { LeaseKeeper } from './lease-keeper.ts';
import type { Tenancy } from './tenancy.ts';

export interface TenancyParts {
  readonly core: Core;
  readonly claims: Claims;
  readonly leases: LeaseKeeper;
  /** The tenancy that a chart is about. */
  readonly find: (split: string) => Tenancy | undefined;
}

export function provideTenancy({
  core,
  claims,
  leases,
  find,
}: TenancyParts): typeof tenancyMachine {
  type Effect = (tenancy: Tenancy, context: TenancyContext) => void;
  const effect =
    (act: Effect) =>
    ({ context }: { context: TenancyContext }): void => {
      const tenancy = find(context.split);
      if (tenancy !== undefined) act(tenancy, context);
    };
  return tenancyMachine.provide({
    actions: {
      requestClaim: effect((tenancy) => {
        claims.send(tenancy);
      }),
      grantSplit: effect((tenancy) => {
        grant(core, tenancy);
      }),
      askForSplit: effect((tenancy, context) => {
        ask(core, tenancy, context);
      }),
      withdrawRequest: effect((tenancy) => {
        const { split, epoch } = tenancy;
        core.events.emit({ type: 'revokeCancelled', splitId: split, epoch: epoch! });
      }),
      loseGrant: ({ context, event }) => {
        const tenancy = find(context.split);
        // Told once: a tenancy may be forced away and then fenced, or never have been handed out.
        if (tenancy !== undefined && context.isGranted) {
          lose(core, tenancy, lossReasonOf(event));
        }
      },
      markLease: effect((tenancy) => {
        // The state to show is the one the chart is in after this step.
        core.mailbox.post(() => {
          leases.mark(tenancy);
        });
      }),
      requestEnding: effect((tenancy, context) => {
        tenancy.end(context.ending as Ending);
      }),
    },
  });
}

function grant(core: Core, tenancy: Tenancy): void {
  const { split, epoch } = tenancy;
  const { spec, record } = tenancy.known;
  core.log.info('split.gained', 'gained a split', { split, epoch });
  core.events.emit({
    type: 'gained',
    split: { id: split, descriptor: bytesOfBase64(spec!.descriptor), weight: spec!.weight },
    epoch: epoch!,
    progress: progressOf(record!),
  });
}

function ask(core: Core, tenancy: Tenancy, context: TenancyContext): void {
  const { split, epoch } = tenancy;
  core.events.emit({
    type: 'revokeRequested',
    splitId: split,
    epoch: epoch!,
    reason: context.withdrawnFor ?? 'unassigned',
    deadlineMs: context.timerMs,
  });
}

function lose(core: Core, tenancy: Tenancy, reason: LossReason): void {
  tenancy.lose();
  const { split, epoch } = tenancy;
  core.log.warn('split.lost', 'lost a split', { split, epoch, reason });
  core.events.emit({ type: 'lost', splitId: split, epoch: epoch!, reason });
}

function lossReasonOf(event: TenancyEvent): LossReason {
  switch (event.type) {
    case 'tenancy.fenced':
    case 'ending.refused':
      return 'fenced';
    case 'session.expired':
    case 'lease.deleted':
    case 'tenancy.starved':
      return 'starved';
    default:
      return 'revoked';
  }
}
