/**
 * The seam below grants: ownership as events, progress as requests. What services embed that run their own control loop;
 * the driver stands on it too.
 */
import { LeaseholdError } from '../base/errors.ts';
import type { InstanceId, SplitId } from '../base/ids.ts';
import type { ProgressInput, StopReport, Verdict } from './api/api.ts';
import type { EventListener, EventStream } from './api/events.ts';
import type { CoordinatorOptions } from './api/options.ts';
import { storedProgressOf } from './api/bytes.ts';
import { Engine } from './engine.ts';
import type { Status } from './status.ts';
import type { Ask, Tenancies } from './holding/tenancies.ts';

/** The seam: ownership as events, progress as requests. For sources that run their own control loop. */
export interface SplitCoordinator {
  readonly instanceId: string;
  /** Begins to work; returns at once. @throws LeaseholdError `E_ALREADY_STARTED`, `E_STOPPED`. */
  start(): void;
  /** Events from now on; see `EventSink` for what may be dropped. */
  events(): EventStream;
  /** Calls `listener` with each event while it happens; returns how to stop. */
  listen(listener: EventListener): () => void;
  /**
   * Makes progress durable under the fence; `completed: true` ends the split for good. Resolves when durable, waits out
   * outages, and rejects `E_FENCED` once the tenancy is over. A newer commit replaces an unsent older one.
   *
   * @param epoch  The tenancy meant; the present one when absent.
   */
  commit(
    splitId: string,
    progress: ProgressInput & { readonly completed?: boolean },
    epoch?: string,
  ): Promise<void>;
  /** Ends the split for good, at the progress committed last when none is given. */
  complete(splitId: string, progress: ProgressInput | null, epoch?: string): Promise<void>;
  /** Ends the tenancy as failed: an attempt is spent; at `maxAttempts` the split is quarantined. */
  fail(splitId: string, reason: string, epoch?: string): Promise<void>;
  /** Hands splits back and leaves the fleet once nothing is held: a departure. */
  release(splitIds: readonly string[]): Promise<void>;
  /** Hands back splits that were asked for; never a departure. */
  releaseDrained(splitIds: readonly string[], epoch?: string): Promise<void>;
  /** Hands one split back unasked; it is not taken again for one lease. */
  giveUp(splitId: string, epoch?: string): Promise<void>;
  /** The source cannot stop at a boundary: a drain is forced at once; a cancelled one keeps the split. */
  declineRevoke(splitId: string, epoch?: string): void;
  /** The source reads on after a revocation was cancelled. */
  resumeIntake(splitId: string, epoch?: string): void;
  /** A handler of a tenancy that is over still runs; the split is not taken again until it ends. */
  handlerOutlives(splitId: string): void;
  handlerEnded(splitId: string): void;
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
  return new Coordinator(options);
}

class Coordinator implements SplitCoordinator {
  readonly instanceId: InstanceId;
  readonly #engine: Engine;
  /** Requests that wait in the mailbox; what it drops when it closes is refused. */
  readonly #unheard = new Set<(error: LeaseholdError) => void>();
  #hasStarted = false;

  constructor(options: CoordinatorOptions) {
    this.#engine = new Engine(options);
    this.instanceId = this.#engine.core.me;
    void this.#engine.departure.finished.then(() => {
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
    return this.#engine.core.events.listen(listener);
  }

  commit(
    splitId: string,
    progress: ProgressInput & { readonly completed?: boolean },
    epoch?: string,
  ): Promise<void> {
    if (progress.completed === true) return this.complete(splitId, progress, epoch);
    return this.#request(splitId, epoch, (tenancies, ask) => {
      tenancies.commit(ask, storedProgressOf(progress));
    });
  }

  complete(splitId: string, progress: ProgressInput | null, epoch?: string): Promise<void> {
    return this.#request(splitId, epoch, (tenancies, ask) => {
      tenancies.complete(ask, progress === null ? null : storedProgressOf(progress));
    });
  }

  fail(splitId: string, reason: string, epoch?: string): Promise<void> {
    return this.#request(splitId, epoch, (tenancies, ask) => {
      tenancies.fail(ask, reason);
    });
  }

  async release(splitIds: readonly string[]): Promise<void> {
    // A departure, whatever becomes of the single releases (R16).
    const releases = splitIds.map((id) => this.releaseDrained([id]));
    if (this.#hasStarted) void this.stop();
    await Promise.allSettled(releases);
  }

  async releaseDrained(splitIds: readonly string[], epoch?: string): Promise<void> {
    await Promise.all(
      splitIds.map((id) =>
        this.#request(id, epoch, (tenancies, ask) => {
          tenancies.drained(ask);
        }),
      ),
    );
  }

  giveUp(splitId: string, epoch?: string): Promise<void> {
    return this.#request(splitId, epoch, (tenancies, ask) => {
      tenancies.giveUp(ask);
    });
  }

  declineRevoke(splitId: string, epoch?: string): void {
    this.#engine.core.mailbox.post(() => {
      this.#engine.tenancies.tell(splitId as SplitId, epoch ?? null, 'drain.declined');
    });
  }

  resumeIntake(splitId: string, epoch?: string): void {
    this.#engine.core.mailbox.post(() => {
      this.#engine.tenancies.tell(splitId as SplitId, epoch ?? null, 'intake.resumed');
    });
  }

  handlerOutlives(splitId: string): void {
    this.#engine.core.mailbox.post(() => {
      this.#engine.tenancies.handlerOutlives(splitId as SplitId);
    });
  }

  handlerEnded(splitId: string): void {
    this.#engine.core.mailbox.post(() => {
      this.#engine.tenancies.handlerEnded(splitId as SplitId);
    });
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

  /**
   * Requests come in through the mailbox too: one that is made while an event is told must not meet a chart in the middle
   * of its step (R9).
   */
  #request(
    splitId: string,
    epoch: string | undefined,
    make: (tenancies: Tenancies, ask: Ask) => void,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#engine.isStopped) {
        reject(stoppedError());
        return;
      }
      const ask = { split: splitId as SplitId, epoch: epoch ?? null, waiter: { resolve, reject } };
      let isHeard = false;
      this.#engine.core.mailbox.postQuietly(() => {
        isHeard = true;
        this.#unheard.delete(reject);
        try {
          make(this.#engine.tenancies, ask);
        } catch (error) {
          reject(error);
        }
      });
      if (!isHeard) this.#unheard.add(reject);
    });
  }
}

function stoppedError(): LeaseholdError {
  return new LeaseholdError('E_STOPPED', 'the worker has stopped; nothing more is written');
}
