/** Builds what all parts of one worker share from the options a service gave. */
import { writingMachine } from '../../machines/writing/writing.machine.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { LeaseholdError } from '../base/errors.ts';
import { type InstanceId, type Nonce, randomId } from '../base/ids.ts';
import { SILENT_LOGGER } from '../base/logger.ts';
import { systemRandom } from '../base/random.ts';
import { isEphemeralKey, jobKeys } from '../records/keys.ts';
import type { Store } from '../store/port.ts';
import { Batcher } from './link/batcher.ts';
import { ChartHost } from './loop/chart-host.ts';
import { resolveConfig } from './api/config.ts';
import type { CoordinatorOptions } from './api/options.ts';
import type { Core, Link } from './link/core.ts';
import { LinkHealth, type LinkListener } from './link/link-health.ts';
import { Warnings } from './link/warnings.ts';
import { EventSink } from './loop/event-sink.ts';
import { FleetView, type ViewListener } from './link/fleet-view.ts';
import { Mailbox } from './loop/mailbox.ts';
import { SessionKeeper, type SessionListener } from './link/session-keeper.ts';
import { StoreAge } from './link/store-age.ts';
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
  /** The store went back in time (R8). */
  readonly wentBack: () => void;
  readonly session: SessionListener;
  /** The store has refused this worker for a whole lease. */
  readonly abandonAll: LinkListener['abandonAll'];
  readonly isLeaving: () => boolean;
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
  const keys = jobKeys(prefix, job);
  const charts = new ChartHost(
    throughMailbox(clock, mailbox),
    guardedInspector(options.inspect, log),
    hooks.crash,
  );
  const nonce = randomId(random) as Nonce;
  const me = instanceId as InstanceId;
  const identity = { job, keys, me, nonce };
  const loop = { clock, random, log, mailbox, charts };
  const link = buildLink(options.store, { ...identity, ...loop, config }, hooks);
  let writes = 0;
  return {
    ...identity,
    ...loop,
    ...link,
    config,
    hostFacts: (options.host ?? '').slice(0, HOST_CHARACTERS_MAX),
    planner,
    fingerprint,
    events: new EventSink(),
    stamp: () => {
      writes += 1;
      return { instance: instanceId, nonce, write: writes };
    },
    after: (ms, act) =>
      clock.setTimeout(() => {
        mailbox.post(act);
      }, ms),
    isLeaving: hooks.isLeaving,
    fatal: hooks.fatal,
    bug: hooks.crash,
  };
}

type LinkPorts = Pick<
  Core,
  'keys' | 'me' | 'clock' | 'random' | 'log' | 'mailbox' | 'charts' | 'config'
>;

/** The way to the store: everything that calls it, and what is believed of it. */
function buildLink(store: Store, ports: LinkPorts, hooks: CoreHooks): Omit<Link, 'stamp'> {
  const { keys, me, clock, log, mailbox, charts } = ports;
  const { opTimeoutMs, leaseDurationMs } = ports.config;
  const age = new StoreAge(hooks.wentBack);
  const gate = new StoreGate(store, clock, {
    age,
    opTimeoutMs,
    root: keys.root,
    leaderKey: keys.leader,
  });
  const { fatal, abandonAll } = hooks;
  const who = { instance: me, leaseDurationMs };
  const health = new LinkHealth({ clock, mailbox, charts, log }, who, { fatal, abandonAll });
  gate.tell(health);
  const warnings = new Warnings(log);
  return {
    gate,
    leaderGate: gate.forLeader(clock),
    health,
    warnings,
    batcher: new Batcher(
      { gate, clock, mailbox, charts, isEphemeral: (key) => isEphemeralKey(keys, key) },
      (resend) => provideLane(mailbox, resend),
    ),
    view: new FleetView(keys, warnings, { changed: hooks.changed, age }),
    session: new SessionKeeper(
      { ...ports, gate },
      { of: 'worker', ttlMs: leaseDurationMs },
      hooks.session,
    ),
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
