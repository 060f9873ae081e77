/**
 * Whether this worker's calls get through, by kind of call: what fails says so, whatever the worker is doing, and a worker
 * that the store refuses holds nothing for longer than a lease (R45, R46).
 *
 * Told by the gate of every outcome; a call that works while nothing fails costs one look at a map.
 */
import type { LinkEvent } from '../../../machines/link/link.events.ts';
import { linkMachine } from '../../../machines/link/link.machine.ts';
import type { Clock } from '../../base/clock.ts';
import { type ErrorCode, isLeaseholdError, type LeaseholdError } from '../../base/errors.ts';
import type { InstanceId } from '../../base/ids.ts';
import type { ChartHost, RunningChart } from '../loop/chart-host.ts';
import type { Mailbox } from '../loop/mailbox.ts';
import type { WorkerLog } from '../loop/worker-log.ts';
import type { CallPath, OutcomeListener } from './bounded-calls.ts';

/** One kind of call that fails now. */
export interface FailingCalls {
  /** The call and what it is about: `read leases/`. */
  readonly call: string;
  /** How long it has failed, in milliseconds. */
  readonly forMs: number;
  readonly code: ErrorCode;
  readonly message: string;
}

export interface LinkPorts {
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly charts: ChartHost;
  readonly log: WorkerLog;
}

export interface LinkListener {
  /** Refused for a lease: session and leadership are given up. */
  abandonAll(): void;
  /** What no retry heals, on whatever path it came. */
  fatal(error: LeaseholdError): void;
}

interface Failing {
  readonly isLeaders: boolean;
  readonly sinceMs: number;
  lastMs: number;
  error: LeaseholdError;
}

/** The store can do nothing for this worker, now or later. */
const HOPELESS: ReadonlySet<ErrorCode> = new Set(['E_STORE_UNSUPPORTED', 'E_CLUSTERS_MIXED']);

export class LinkHealth implements OutcomeListener {
  readonly #ports: LinkPorts;
  readonly #listener: LinkListener;
  readonly #leaseDurationMs: number;
  readonly #chart: RunningChart<LinkEvent>;
  readonly #failing = new Map<string, Failing>();
  /** Until this worker is in the fleet for the first time a refusal ends it. */
  #isStarting = true;

  constructor(
    ports: LinkPorts,
    { instance, leaseDurationMs }: { instance: InstanceId; leaseDurationMs: number },
    listener: LinkListener,
  ) {
    this.#ports = ports;
    this.#listener = listener;
    this.#leaseDurationMs = leaseDurationMs;
    this.#chart = ports.charts.start(this.#machine(), 'link', instance, {
      instance,
      leaseDurationMs,
    });
  }

  get state(): string {
    return this.#chart.state;
  }

  /** True while the store refuses something that this worker must do. */
  get isDenied(): boolean {
    return this.#chart.isIn('denied') || this.#chart.isIn('barred');
  }

  /** True while nothing fails: what works is no news. */
  get isQuiet(): boolean {
    return this.#failing.size === 0;
  }

  /** What fails now, longest first. */
  failing(): FailingCalls[] {
    const nowMs = this.#ports.clock.nowMs();
    return [...this.#failing].map(([call, { sinceMs, error }]) => ({
      call,
      forMs: nowMs - sinceMs,
      code: error.code,
      message: error.message,
    }));
  }

  /** A call of this kind worked. */
  worked({ name }: CallPath): void {
    if (this.#failing.delete(name)) this.#tellHealed();
  }

  /** A call of this kind did not. */
  failed({ name, isLeaders }: CallPath, thrown: unknown): void {
    if (!isLeaseholdError(thrown) || !isOfTheLink(thrown)) return;
    const nowMs = this.#ports.clock.nowMs();
    const known = this.#failing.get(name);
    const isDenied = thrown.code === 'E_STORE_DENIED';
    const wasDenied = known?.error.code === 'E_STORE_DENIED';
    this.#failing.set(name, {
      isLeaders,
      sinceMs: known?.sinceMs ?? nowMs,
      lastMs: nowMs,
      error: thrown,
    });
    this.#ports.mailbox.post(() => {
      const isHopeless = HOPELESS.has(thrown.code) || (isDenied && this.#isStarting);
      if (isHopeless) this.#listener.fatal(thrown);
      else if (isDenied && !isLeaders) this.#chart.send({ type: 'call.denied' });
      else {
        // What only leaders write costs the leadership (R18), not what is held; it is said all the same.
        if (isDenied && !wasDenied) this.#reportLeaderDenied(name, thrown);
        this.#chart.send({ type: 'call.failed' });
      }
    });
    // What was refused fails in another way now: nobody is sent away for a refusal that is over.
    if (wasDenied && !isDenied) this.#tellHealed();
  }

  /** This worker is in the fleet, for the first time or again. */
  returned(): void {
    this.#isStarting = false;
    if (this.#chart.isIn('barred')) this.#failing.clear();
    this.#chart.send({ type: 'worker.returned' });
  }

  /** Each third of a lease: what nobody has tried for a lease fails no longer, as far as anybody can tell. */
  tick(): void {
    const oldestMs = this.#ports.clock.nowMs() - this.#leaseDurationMs;
    let hasForgotten = false;
    for (const [call, { lastMs }] of this.#failing) {
      if (lastMs < oldestMs) hasForgotten = this.#failing.delete(call);
    }
    if (hasForgotten) this.#tellHealed();
  }

  stop(): void {
    this.#chart.stop();
  }

  #tellHealed(): void {
    this.#ports.mailbox.post(() => {
      if (this.#failing.size === 0) this.#chart.send({ type: 'calls.healed' });
      else if (this.#denials().length === 0) this.#chart.send({ type: 'denial.lifted' });
    });
  }

  /** What is refused of what this worker must do to work at all. */
  #denials(): FailingCalls[] {
    return this.failing().filter(
      ({ code, call }) => code === 'E_STORE_DENIED' && this.#failing.get(call)?.isLeaders === false,
    );
  }

  #reportLeaderDenied(call: string, { message }: LeaseholdError): void {
    this.#ports.log.error(
      'store.denied',
      `the store refuses ${call}, which a leader must do (${message}): another worker will lead`,
      { calls: this.failing().filter((one) => one.call === call) },
    );
  }

  #machine(): typeof linkMachine {
    const { log } = this.#ports;
    return linkMachine.provide({
      actions: {
        reportFailing: (_) => {
          const [worst] = this.failing();
          const text =
            worst === undefined
              ? 'calls to the store fail'
              : `${worst.call} has failed for ${Math.round(worst.forMs)} ms: ${worst.message}`;
          log.warn('store.failing', text, { calls: this.failing() });
        },
        reportDenied: (_) => {
          const [first] = this.#denials();
          const forMs = Math.round(this.#leaseDurationMs);
          log.error(
            'store.denied',
            `the store refuses ${first?.call ?? 'a call'} (${first?.message ?? 'no reason given'}); ` +
              `unless that is lifted within ${forMs} ms, everything held is given up. Check user, role and password`,
            { calls: this.#denials() },
          );
        },
        reportHealed: (_) => {
          log.info('store.healed', 'the store serves this worker again');
        },
        abandonAll: (_) => {
          log.error(
            'store.barred',
            'refused for a whole lease: gives everything up and comes back later',
            {
              calls: this.#denials(),
            },
          );
          this.#listener.abandonAll();
        },
      },
    });
  }
}

/** Losing a race, a full store or an ended session says nothing about the way to the store. */
function isOfTheLink({ kind, code }: LeaseholdError): boolean {
  if (code === 'E_STORE_FULL' || code === 'E_STOPPED') return false;
  return kind === 'unavailable' || kind === 'indeterminate' || kind === 'fatal';
}
