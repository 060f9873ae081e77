/**
 * The seam below grants: ownership as events, progress as requests. What services embed that run their own control loop;
 * the driver stands on it too.
 */
import { quiet, quietAnswer } from '../base/answer.ts';
import { isDecimal } from '../base/decimals.ts';
import { isLeaseholdError, LeaseholdError } from '../base/errors.ts';
import { describe, type InstanceId, type SplitId, splitIdOf } from '../base/ids.ts';
import { AN_ID } from '../base/rules.ts';
import { aFunction, aListOf, checkArgument } from '../base/shape.ts';
import type { FailOptions, ProgressInput, ReleaseOptions, StopReport, Verdict } from './api/api.ts';
import type { EventListener, EventStream } from './api/events.ts';
import type { CoordinatorOptions } from './api/options.ts';
import { storedProgressOf } from './api/bytes.ts';
import { checkWorkerOptions } from './api/worker-options.ts';
import { Engine } from './engine.ts';
import type { Status } from './api/status.ts';
import type { Ask, Tenancies } from './holding/tenancies.ts';

/**
 * The seam: ownership as events, progress as requests. For sources that run their own control loop.
 *
 * Every request names its tenancy by the epoch of its `gained`; one that does not is refused with `E_EPOCH_INVALID`. That a request
 * is refused is no fault of the process: a promise that nobody awaits ends none.
 */
export interface SplitCoordinator {
  readonly instanceId: string;
  /** Begins to work; returns at once. @throws LeaseholdError `E_ALREADY_STARTED`, `E_STOPPED`. */
  start(): void;
  /** Events from now on; see `EventStream` for what a stream forgets that nobody reads. */
  events(): EventStream;
  /**
   * Calls `listener` with each event while it happens; returns how to stop. What it throws, or what its promise rejects with, is logged
   * and counted in `status().listenerErrors`.
   */
  listen(listener: EventListener): () => void;
  /**
   * Makes progress durable under the fence; `completed: true` ends the split for good. Resolves when durable, waits out
   * outages, and rejects `E_FENCED` once the tenancy is over. A newer commit replaces an unsent older one. A watermark below one that
   * was accepted is refused with `E_WATERMARK_REGRESSION` and fails the tenancy.
   *
   * @param epoch  Of the tenancy meant: the loop of one that was lost must not write into the next.
   */
  commit(
    splitId: string,
    progress: ProgressInput & { readonly completed?: boolean },
    epoch: string,
  ): Promise<void>;
  /** Ends the split for good, at the progress committed last when none is given. */
  complete(splitId: string, progress: ProgressInput | null, epoch: string): Promise<void>;
  /**
   * Ends the tenancy as failed: the split rests, and is tried again. Whether the failure counts against it, and when it is
   * set aside, is told by `retry` of the configuration.
   */
  fail(splitId: string, reason: string, epoch: string, options?: FailOptions): Promise<void>;
  /** Hands these splits back, whatever their tenancies, and then leaves the fleet: a departure of the whole worker. */
  release(splitIds: readonly string[]): Promise<void>;
  /** Hands back splits that were asked for, held at this epoch; never a departure. */
  releaseDrained(splitIds: readonly string[], epoch: string): Promise<void>;
  /** Hands one split back unasked: nobody takes it for `afterMs`, one lease when absent. */
  giveUp(splitId: string, epoch: string, options?: ReleaseOptions): Promise<void>;
  /** The source cannot stop at a boundary: a drain is forced at once; a cancelled one keeps the split. */
  declineRevoke(splitId: string, epoch: string): void;
  /** The source reads on after a revocation was cancelled. */
  resumeIntake(splitId: string, epoch: string): void;
  /**
   * Work on a tenancy has begun, said while its `gained` is told: until `handlerEnded` this process takes the split no second time,
   * however the tenancy ends. A source that says neither has none of its work waited for.
   */
  handlerBegan(splitId: string, epoch: string): void;
  /** Nothing works on that tenancy any more. */
  handlerEnded(splitId: string, epoch: string): void;
  /** Resolves with the verdict; rejects with the fatal error, or `E_STOPPED`. */
  verdict(): Promise<Verdict>;
  /** Drains, releases and leaves; idempotent. Afterwards nothing runs. */
  stop(): Promise<StopReport>;
  status(): Status;
}

/**
 * Builds a worker on the seam.
 *
 * @throws LeaseholdError `E_CONFIG_INVALID` listing every violation.
 */
export function createCoordinator(options: CoordinatorOptions): SplitCoordinator {
  return createSeam(options);
}

/** The seam as the driver has it. */
export interface Seam extends SplitCoordinator {
  /** Something of this library threw that must not. */
  bug(error: unknown): void;
}

/** The same, for what stands on the seam inside this library. */
export function createSeam(options: CoordinatorOptions): Seam {
  return new Coordinator(options);
}

const A_LISTENER = aFunction('(event) => void');
const SPLIT_IDS = aListOf(AN_ID);

/** True for progress that ends its split; whatever else is wrong with it is said where it is read. */
function isLast(progress: unknown): boolean {
  try {
    return (progress as { readonly completed?: unknown }).completed === true;
  } catch {
    return false;
  }
}

class Coordinator implements Seam {
  readonly instanceId: InstanceId;
  readonly #engine: Engine;
  /** Requests that wait in the mailbox; what it drops when it closes is refused. */
  readonly #unheard = new Set<(error: unknown) => void>();
  #hasStarted = false;

  constructor(options: CoordinatorOptions) {
    this.#engine = new Engine(checkWorkerOptions(options));
    this.instanceId = this.#engine.core.me;
    const { departure, core } = this.#engine;
    core.mailbox.hear(departure.finished, () => {
      for (const refuse of this.#unheard) refuse(stoppedError());
      this.#unheard.clear();
    });
  }

  start(): void {
    if (this.#hasStarted) {
      throw new LeaseholdError('E_ALREADY_STARTED', 'a worker starts once; build another one');
    }
    if (this.#engine.isStopped) {
      throw new LeaseholdError('E_STOPPED', 'the worker was stopped; build another one');
    }
    this.#hasStarted = true;
    this.#engine.start();
  }

  events(): EventStream {
    return this.#engine.core.events.stream();
  }

  listen(listener: EventListener): () => void {
    checkArgument(listener, 'listener', A_LISTENER);
    return this.#engine.core.events.listen(listener);
  }

  commit(
    splitId: string,
    progress: ProgressInput & { readonly completed?: boolean },
    epoch: string,
  ): Promise<void> {
    if (isLast(progress)) return this.complete(splitId, progress, epoch);
    return this.#request(splitId, epoch, (tenancies, ask) => {
      tenancies.commit(ask, storedProgressOf(progress));
    });
  }

  complete(splitId: string, progress: ProgressInput | null, epoch: string): Promise<void> {
    return this.#request(splitId, epoch, (tenancies, ask) => {
      tenancies.complete(ask, progress === null ? null : storedProgressOf(progress));
    });
  }

  fail(splitId: string, reason: string, epoch: string, options?: FailOptions): Promise<void> {
    return this.#request(splitId, epoch, (tenancies, ask) => {
      tenancies.fail(ask, reason, options);
    });
  }

  async release(splitIds: readonly string[]): Promise<void> {
    checkArgument(splitIds, 'splitIds', SPLIT_IDS);
    // A departure, whatever becomes of the single releases (R16).
    const releases = splitIds.map((id) => this.#released(id, null));
    if (this.#hasStarted) void this.stop();
    await Promise.allSettled(releases);
  }

  releaseDrained(splitIds: readonly string[], epoch: string): Promise<void> {
    return quiet(this.#releaseDrained(splitIds, epoch));
  }

  giveUp(splitId: string, epoch: string, options?: ReleaseOptions): Promise<void> {
    return this.#request(splitId, epoch, (tenancies, ask) => {
      tenancies.giveUp(ask, options?.afterMs);
    });
  }

  declineRevoke(splitId: string, epoch: string): void {
    this.#tell(epoch, () => {
      this.#engine.tenancies.tell(splitId as SplitId, epoch, 'drain.declined');
    });
  }

  resumeIntake(splitId: string, epoch: string): void {
    this.#tell(epoch, () => {
      this.#engine.tenancies.tell(splitId as SplitId, epoch, 'intake.resumed');
    });
  }

  handlerBegan(splitId: string, epoch: string): void {
    this.#tell(epoch, () => {
      this.#engine.tenancies.handlerBegan(splitId as SplitId, epoch);
    });
  }

  handlerEnded(splitId: string, epoch: string): void {
    this.#tell(epoch, () => {
      this.#engine.tenancies.handlerEnded(splitId as SplitId, epoch);
    });
  }

  bug(error: unknown): void {
    this.#engine.core.bug(error);
  }

  verdict(): Promise<Verdict> {
    return this.#engine.verdict();
  }

  stop(): Promise<StopReport> {
    return this.#engine.stop(this.#hasStarted);
  }

  status(): Status {
    return this.#engine.status();
  }

  async #releaseDrained(splitIds: readonly string[], epoch: string): Promise<void> {
    checkArgument(splitIds, 'splitIds', SPLIT_IDS);
    const missing = epochProblem(epoch);
    if (missing !== null) throw missing;
    await Promise.all(splitIds.map((id) => this.#released(id, epoch)));
  }

  #released(splitId: string, epoch: string | null): Promise<void> {
    return this.#ask(splitId, epoch, (tenancies, ask) => {
      tenancies.drained(ask);
    });
  }

  #tell(epoch: string, act: () => void): void {
    const missing = epochProblem(epoch);
    if (missing !== null) throw missing;
    this.#engine.core.mailbox.post(act);
  }

  #request(
    splitId: string,
    epoch: string,
    make: (tenancies: Tenancies, ask: Ask) => void,
  ): Promise<void> {
    const missing = epochProblem(epoch);
    if (missing !== null) return quiet(Promise.reject(missing));
    return this.#ask(splitId, epoch, make);
  }

  /**
   * Requests come in through the mailbox too: one that is made while an event is told must not meet a chart in the middle
   * of its step (R9).
   */
  #ask(
    splitId: string,
    epoch: string | null,
    make: (tenancies: Tenancies, ask: Ask) => void,
  ): Promise<void> {
    const { promise, resolve, reject } = quietAnswer<void>();
    const { core, tenancies, isStopped } = this.#engine;
    if (isStopped) {
      reject(stoppedError());
      return promise;
    }
    let split: SplitId;
    try {
      split = splitIdOf(splitId);
    } catch (error) {
      reject(error);
      return promise;
    }
    const ask = { split, epoch, waiter: { resolve, reject } };
    let isHeard = false;
    core.mailbox.postQuietly(() => {
      isHeard = true;
      this.#unheard.delete(reject);
      try {
        make(tenancies, ask);
      } catch (error) {
        reject(error);
        if (isLeaseholdError(error)) this.#refused(ask, error);
        else core.bug(error);
      }
    });
    if (!isHeard) this.#unheard.add(reject);
    return promise;
  }

  /** Said, because nobody may await the answer. */
  #refused({ split, epoch }: Ask, { code, message }: LeaseholdError): void {
    this.#engine.core.log.warn('request.refused', message, { split, epoch, code });
  }
}

/** What is wrong with an epoch that a caller gave; callers without types give anything. */
function epochProblem(epoch: unknown): LeaseholdError | null {
  if (isDecimal(epoch)) return null;
  return new LeaseholdError(
    'E_EPOCH_INVALID',
    `epoch is ${describe(epoch)}: give the epoch of the tenancy meant, as its \`gained\` event told it`,
    { details: { epoch: describe(epoch) } },
  );
}

function stoppedError(): LeaseholdError {
  return new LeaseholdError('E_STOPPED', 'the worker has stopped; nothing more is written');
}
