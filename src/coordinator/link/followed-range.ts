/**
 * Follows one range of the store: carries out what its follow chart decides. Its watch is merged into the worker's mailbox;
 * everything else arrives as messages too.
 */
import { map, Observable, Subject, takeUntil } from 'rxjs';
import type { FollowEvent } from '../../../machines/follow/follow.events.ts';
import { followMachine } from '../../../machines/follow/follow.machine.ts';
import { nextRevision, type Revision } from '../../base/decimals.ts';
import { isLeaseholdError, type LeaseholdError } from '../../base/errors.ts';
import type { Range, WatchEvent } from '../../store/port.ts';
import type { RunningChart } from '../loop/chart-host.ts';
import type { CallPath } from './bounded-calls.ts';
import type { Core } from './core.ts';
import { findDifferences } from './range-check.ts';

/** What is around a range that is followed. */
export type FollowPorts = Pick<Core, 'gate' | 'view' | 'mailbox' | 'charts' | 'health' | 'bug'>;

/** What the follower of a range is told. */
export interface RangeListener {
  /** The whole range was taken in, at one revision. */
  listed(): void;
  /** A listing was in vain; another one follows. */
  failed?(): void;
  /** The store is another one (R8). */
  reset(): void;
}

/** Machines with their effects provided, one a worker: providing per actor is slow. */
export type FollowMachine = typeof followMachine;

export class FollowedRange {
  readonly range: Range;
  readonly name: string;
  readonly #ports: FollowPorts;
  readonly #listener: RangeListener;
  readonly #unwatched = new Subject<void>();
  #chart: RunningChart<FollowEvent> | null = null;
  /** The newest reading; what an older one answers is ignored. */
  #reading: object | null = null;
  /** Everything in the range was known as of this revision. */
  #knownAt: Revision | null = null;
  #refusal: LeaseholdError | null = null;
  readonly #watchPath: CallPath;

  /** @param name  What is followed, for operators: `leases/`. */
  constructor(
    ports: FollowPorts,
    { range, name }: { range: Range; name: string },
    listener: RangeListener,
  ) {
    this.#watchPath = { name: `watch ${name}`, isLeaders: false };
    this.range = range;
    this.name = name;
    this.#ports = ports;
    this.#listener = listener;
  }

  /** Starts the chart, whose first effect is the listing: `machine` must find this range by its name by now. */
  begin(machine: FollowMachine): void {
    const input = { range: this.name };
    this.#chart = this.#ports.charts.start(machine, 'follow', this.name, input);
  }

  get state(): string {
    return this.#chart?.state ?? 'listing';
  }

  get isRefused(): boolean {
    return this.#refusal !== null;
  }

  /** Compares what is known with what is there: the backstop for lost events. */
  check(): void {
    this.#send({ type: 'check.due' });
  }

  /** The store is another one: everything is read anew (R8). */
  reset(): void {
    this.#send({ type: 'store.reset' });
  }

  close(): void {
    this.#send({ type: 'follow.closed' });
  }

  /** A refusal lasts until it is lifted, though it is told but once. */
  tick(): void {
    if (this.#refusal !== null) this.#ports.health.failed(this.#watchPath, this.#refusal);
  }

  list(): void {
    const { gate, view } = this.#ports;
    this.#read(
      () => gate.readAll(this.range),
      ({ entries, revision }) => {
        view.list(this.range, entries, revision);
        this.#knownAt = revision;
        this.#send({ type: 'listing.arrived' });
        this.#listener.listed();
      },
      'listing.failed',
    );
  }

  verify(): void {
    const { gate, view } = this.#ports;
    this.#read(
      () => findDifferences(gate, view.known, this.range, this.#knownAt!),
      ({ changes, revision }) => {
        view.learn(this.range, changes, revision);
        this.#knownAt = revision;
        this.#send({ type: 'check.passed' });
      },
      'check.failed',
    );
  }

  watch(): void {
    const { gate, mailbox } = this.#ports;
    const from = nextRevision(this.#knownAt!);
    const events = new Observable<WatchEvent>((to) => gate.watch(this.range, from).subscribe(to));
    const heard = map((event: WatchEvent) => () => {
      this.#hear(event);
    });
    mailbox.connect(events.pipe(takeUntil(this.#unwatched), heard));
  }

  unwatch(): void {
    this.#unwatched.next();
    this.#reading = null;
    this.#accepted();
  }

  #send(event: FollowEvent): void {
    this.#chart?.send(event);
  }

  #read<T>(
    work: () => Promise<T>,
    done: (answer: T) => void,
    failed: 'listing.failed' | 'check.failed',
  ): void {
    const { mailbox, bug } = this.#ports;
    const reading = {};
    this.#reading = reading;
    const isCurrent = (): boolean => this.#reading === reading;
    work().then(
      (answer) => {
        mailbox.post(() => {
          if (isCurrent()) done(answer);
        });
      },
      (error: unknown) => {
        if (!isLeaseholdError(error)) {
          bug(error);
          return;
        }
        mailbox.post(() => {
          if (!isCurrent()) return;
          this.#send({ type: failed });
          this.#listener.failed?.();
        });
      },
    );
  }

  #hear(event: WatchEvent): void {
    switch (event.kind) {
      case 'changes':
        for (const change of event.changes) this.#ports.view.apply(change);
        break;
      case 'compacted':
        this.#send({ type: 'watch.compacted' });
        break;
      case 'reset':
        this.#listener.reset();
        break;
      case 'refused':
        this.#refusal = event.error;
        this.#ports.health.failed(this.#watchPath, event.error);
        this.#send({ type: 'watch.refused' });
        break;
      case 'accepted':
        this.#accepted();
        this.#send({ type: 'watch.accepted' });
        break;
    }
  }

  #accepted(): void {
    if (this.#refusal === null) return;
    this.#refusal = null;
    this.#ports.health.worked(this.#watchPath);
  }
}

/** The chart's effects, for all ranges of a worker; `find` gives the range that a chart is about. */
export function followEffects(find: (name: string) => FollowedRange | undefined): FollowMachine {
  type Args = { context: { range: string } };
  const on =
    (act: (range: FollowedRange) => void) =>
    ({ context }: Args): void => {
      const range = find(context.range);
      if (range !== undefined) act(range);
    };
  return followMachine.provide({
    actions: {
      list: on((range) => range.list()),
      watch: on((range) => range.watch()),
      unwatch: on((range) => range.unwatch()),
      verify: on((range) => range.verify()),
    },
  });
}
