/** Builds what all parts of one worker share from the options a service gave. */
import { writingMachine } from '../../machines/writing/writing.machine.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { LeaseholdError } from '../base/errors.ts';
import { type InstanceId, type Nonce, randomId } from '../base/ids.ts';
import { SILENT_LOGGER } from '../base/logger.ts';
import { systemRandom } from '../base/random.ts';
import { isEphemeralKey, jobKeys } from '../records/keys.ts';
import { Batcher } from './link/batcher.ts';
import { ChartHost } from './loop/chart-host.ts';
import { resolveConfig } from './api/config.ts';
import type { CoordinatorOptions } from './api/options.ts';
import type { Core } from './link/core.ts';
import { EventSink } from './loop/event-sink.ts';
import { FleetView, type ViewListener } from './link/fleet-view.ts';
import { Mailbox } from './loop/mailbox.ts';
import { SessionKeeper, type SessionListener } from './link/session-keeper.ts';
import { StoreGate } from './link/store-gate.ts';
import { TimerSet } from './loop/timers.ts';
import { guardedInspector, workerLog } from './loop/worker-log.ts';

/** What the shared parts tell the worker they belong to. */
export interface CoreHooks {
  /** Messages were handled: decide on what is known now. */
  readonly decide: () => void;
  /** Something threw that must not: a bug. */
  readonly crash: (error: unknown) => void;
  readonly changed: ViewListener['changed'];
  readonly session: SessionListener;
  readonly fatal: (error: LeaseholdError) => void;
}

const HOST_CHARACTERS_MAX = 500;

/** @throws LeaseholdError `E_CONFIG_INVALID` listing every violation. */
export function buildCore(options: CoordinatorOptions, hooks: CoreHooks): Core {
  const random = options.random ?? systemRandom();
  const instanceId = options.instanceId ?? `worker-${randomId(random).slice(0, 12)}`;
  const { job, prefix = 'leasehold', planner } = options;
  const fingerprint = planner.fingerprint();
  const config = resolveConfig({ ...options.config }, { job, prefix, instanceId, fingerprint });
  const clock = new TimerSet(options.clock ?? systemClock());
  const log = workerLog(options.logger ?? SILENT_LOGGER, { job, instanceId });
  const mailbox = new Mailbox(hooks.decide, hooks.crash);
  const gate = new StoreGate(options.store, clock, config.opTimeoutMs);
  const charts = new ChartHost(
    throughMailbox(clock, mailbox),
    guardedInspector(options.inspect, log),
    hooks.crash,
  );
  const keys = jobKeys(prefix, job);
  const nonce = randomId(random) as Nonce;
  let writes = 0;
  return {
    job,
    config,
    keys,
    me: instanceId as InstanceId,
    nonce,
    hostFacts: (options.host ?? '').slice(0, HOST_CHARACTERS_MAX),
    planner,
    fingerprint,
    clock,
    random,
    log,
    mailbox,
    gate,
    charts,
    batcher: new Batcher(
      { gate, mailbox, charts, isEphemeral: (key) => isEphemeralKey(keys, key) },
      (resend) => provideLane(mailbox, resend),
    ),
    view: new FleetView(keys, {
      changed: hooks.changed,
      warn: (key, reason) => {
        log.warn('record.ignored', `${key} ${reason}`, { key, reason });
      },
    }),
    events: new EventSink(),
    session: new SessionKeeper(
      { gate, clock, random, mailbox },
      config.leaseDurationMs,
      hooks.session,
    ),
    stamp: () => {
      writes += 1;
      return { instance: instanceId, nonce, write: writes };
    },
    fatal: hooks.fatal,
  };
}

/** Timers of charts are messages too: nothing meets a chart in the middle of a step (R9). */
function throughMailbox(clock: Clock, mailbox: Mailbox): Clock {
  return {
    nowMs: () => clock.nowMs(),
    wallMs: () => clock.wallMs(),
    setTimeout: (callback, delayMs) =>
      clock.setTimeout(() => {
        mailbox.post(callback);
      }, delayMs),
    clearTimeout: (timer) => {
      clock.clearTimeout(timer);
    },
  };
}

function provideLane(mailbox: Mailbox, resend: (lane: number) => void): typeof writingMachine {
  return writingMachine.provide({
    actions: {
      resendBatch: ({ context }) => {
        mailbox.post(() => {
          resend(context.lane);
        });
      },
    },
  });
}
