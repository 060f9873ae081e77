/** What the tenancy chart's actions do. Provided once for all tenancies of a worker. */
import type {
  Ending,
  TenancyContext,
  TenancyEvent,
} from '../../../machines/tenancy/tenancy.events.ts';
import { tenancyMachine } from '../../../machines/tenancy/tenancy.machine.ts';
import type { Epoch } from '../../base/decimals.ts';
import type { SplitId } from '../../base/ids.ts';
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
  /** A tenancy was taken from whoever works on it. */
  readonly lost: (split: SplitId, epoch: Epoch) => void;
}

export function provideTenancy({
  core,
  claims,
  leases,
  find,
  lost,
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
          lost(tenancy.split, tenancy.epoch!);
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
  core.log.debug('split.gained', 'gained a split', { split, epoch });
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
  core.log.debug('split.lost', 'lost a split', { split, epoch, reason });
  if (reason === 'revoked') sayForced(core, tenancy);
  core.events.emit({ type: 'lost', splitId: split, epoch: epoch!, reason });
}

function sayForced(core: Core, { split, epoch }: Tenancy): void {
  const { drainDeadlineMs } = core.config;
  core.log.warn(
    'split.forced',
    `a split was not handed back within ${drainDeadlineMs} ms and was taken: look at draining.requested more often, or raise drainDeadlineMs`,
    { split, epoch, drainDeadlineMs },
  );
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
    case 'watermark.fell':
      return 'failed';
    default:
      return 'revoked';
  }
}
