/**
 * What a service embeds: a worker that runs a handler once per tenancy, or hands grants out.
 *
 * Stands on the seam (`SplitCoordinator`); rules R27, R33-R37.
 */
import { errorOf, LeaseholdError, messageOf } from '../base/errors.ts';
import { SILENT_LOGGER } from '../base/logger.ts';
import { aFunction, having, readTable, refuseIfAny, type Violation } from '../base/shape.ts';
import type { CoordinationEvent, StopReport, Verdict } from '../coordinator/api/api.ts';
import type { EventStream } from '../coordinator/api/events.ts';
import type { CoordinatorOptions } from '../coordinator/api/options.ts';
import { createSeam, type Seam } from '../coordinator/coordinator.ts';
import type { Status } from '../coordinator/api/status.ts';
import { workerLog, type WorkerLog } from '../coordinator/loop/worker-log.ts';
import { type Grant, OpenGrant } from './grant.ts';
import { GrantQueue } from './grant-queue.ts';
import { retryWishOf } from './retry-errors.ts';

/** What a worker is made from. */
export type WorkerOptions = CoordinatorOptions;

/** Works on one split for one tenancy. Returns when it is completed or handed back; a throw fails the tenancy. */
export type Handler = (grant: Grant) => Promise<void> | void;

/** A worker of a job. */
export interface Worker extends AsyncDisposable {
  readonly instanceId: string;
  /**
   * Starts the worker and runs `handler` once per tenancy, at most `maxInFlight` at a time.
   *
   * A handler that returns without completing hands the split back if it was ever asked for; otherwise, and when it
   * throws, the tenancy has failed and an attempt is spent. What it throws after `grant.lost` fired is logged.
   *
   * @returns The verdict, once the worker has left. Rejects with the fatal error, with `E_STOPPED` after `stop()`, or with
   *   `signal.reason`; in each case after leaving.
   */
  run(handler: Handler, options?: { readonly signal?: AbortSignal }): Promise<Verdict>;
  /**
   * Starts the worker and yields a grant per tenancy, for services that schedule by themselves. Every grant must be
   * completed, failed or released; at `lost` the work on it must stop by itself. That the work on a grant is over is said by
   * `grant.finished()`; a turn of the loop says it by itself when its grant has ended before the turn does.
   *
   * Ends with the verdict or when the worker does; leaving the loop, by `break` or a throw, stops the worker. What nobody has taken
   * when it is asked back, or when the loop ends, is handed back at once.
   */
  grants(): AsyncIterableIterator<Grant>;
  /** What happens, from now on. */
  events(): EventStream;
  /** Resolves with the verdict; rejects as `run` does. */
  verdict(): Promise<Verdict>;
  /** The worker now, read from its charts. JSON. */
  status(): Status;
  /**
   * Drains, releases and leaves, within the drain deadline plus one operation timeout, from whatever state. All calls
   * resolve to the same report. Afterwards nothing runs: no timer, no listener, no request.
   */
  stop(): Promise<StopReport>;
}

/**
 * Builds a worker; nothing runs before `run()` or `grants()`.
 *
 * @throws LeaseholdError `E_CONFIG_INVALID` listing every violation.
 */
export function createWorker(options: WorkerOptions): Worker {
  return new DrivenWorker(options);
}

/** Who takes the grants. */
interface Taker {
  take(grant: OpenGrant): void;
  /** It is asked back, or was lost. */
  takeBack(grant: OpenGrant): void;
  /** The work on it is said to be over. */
  finished(grant: OpenGrant): void;
}

const A_HANDLER = aFunction('(grant) => Promise<void>');
const RUN_OPTIONS = {
  signal: {
    rule: having('an AbortSignal', ['addEventListener', 'removeEventListener', 'throwIfAborted']),
    meaning: 'Stops the worker.',
  },
};

/** @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations. */
function checkRun(handler: unknown, options: unknown): void {
  const found: Violation[] = [];
  A_HANDLER.check(handler, 'handler', found);
  readTable(options, RUN_OPTIONS, { name: 'options', found });
  refuseIfAny(found, 'arguments of run()');
}

class DrivenWorker implements Worker {
  readonly instanceId: string;
  readonly #coordinator: Seam;
  readonly #log: WorkerLog;
  readonly #grants = new Map<string, OpenGrant>();
  #taker: Taker | null = null;

  constructor(options: WorkerOptions) {
    this.#coordinator = createSeam(options);
    this.instanceId = this.#coordinator.instanceId;
    const { job, logger = SILENT_LOGGER } = options;
    this.#log = workerLog(logger, { job, instanceId: this.instanceId });
  }

  async run(handler: Handler, options: { readonly signal?: AbortSignal } = {}): Promise<Verdict> {
    checkRun(handler, options);
    const { signal } = options;
    signal?.throwIfAborted();
    this.#start({
      take: (grant) => {
        this.#handle(handler, grant).catch((error: unknown) => {
          this.#coordinator.bug(error);
        });
      },
      takeBack: () => undefined,
      // Its handler may have more to do: its return is what counts.
      finished: () => undefined,
    });
    const stop = (): void => {
      void this.stop();
    };
    signal?.addEventListener('abort', stop, { once: true });
    try {
      return await this.#coordinator.verdict();
    } catch (error) {
      if (signal?.aborted === true) throw signal.reason;
      throw error;
    } finally {
      signal?.removeEventListener('abort', stop);
      await this.stop();
    }
  }

  grants(): AsyncIterableIterator<Grant> {
    const stop = (): void => {
      void this.stop();
    };
    const queue = new GrantQueue(stop);
    this.#start({
      take: (grant) => {
        queue.push(grant);
      },
      takeBack: (grant) => {
        queue.takeBack(grant);
      },
      finished: (grant) => {
        this.#over(grant);
      },
    });
    const ended = (): void => {
      queue.end();
      stop();
    };
    this.#coordinator
      .verdict()
      .then(ended, ended)
      .catch((error: unknown) => {
        this.#coordinator.bug(error);
      });
    return queue;
  }

  events(): EventStream {
    return this.#coordinator.events();
  }

  verdict(): Promise<Verdict> {
    return this.#coordinator.verdict();
  }

  status(): Status {
    return this.#coordinator.status();
  }

  stop(): Promise<StopReport> {
    return this.#coordinator.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #start(taker: Taker): void {
    if (this.#taker !== null) {
      throw new LeaseholdError(
        'E_ALREADY_STARTED',
        'run() or grants() was called already; build another worker',
      );
    }
    this.#taker = taker;
    this.#coordinator.listen((event) => {
      try {
        this.#on(event);
      } catch (error) {
        this.#coordinator.bug(error);
      }
    });
    this.#coordinator.start();
  }

  #on(event: CoordinationEvent): void {
    switch (event.type) {
      case 'gained': {
        const taker = this.#taker!;
        const grant = new OpenGrant(this.#coordinator, event, (one) => {
          taker.finished(one);
        });
        this.#grants.set(event.split.id, grant);
        this.#coordinator.handlerBegan(event.split.id, event.epoch);
        taker.take(grant);
        return;
      }
      case 'revokeRequested': {
        const grant = this.#grantOf(event);
        if (grant === undefined) return;
        grant.request(event.reason);
        this.#taker?.takeBack(grant);
        return;
      }
      case 'revokeCancelled': {
        const grant = this.#grantOf(event);
        if (grant === undefined || grant.hasEnded) return;
        grant.withdraw();
        // A handler that still runs goes on (R35).
        this.#coordinator.resumeIntake(event.splitId, event.epoch);
        return;
      }
      case 'lost': {
        const grant = this.#grantOf(event);
        if (grant === undefined) return;
        this.#grants.delete(event.splitId);
        grant.lose();
        this.#taker?.takeBack(grant);
        return;
      }
      case 'verdict':
      case 'quarantined':
      case 'leadershipGained':
      case 'leadershipLost':
      case 'sessionLost':
      case 'plannerFailed':
      case 'plannerLate':
      case 'unplaced':
      case 'placed':
        return;
    }
  }

  #grantOf(event: { splitId: string; epoch: string }): OpenGrant | undefined {
    const grant = this.#grants.get(event.splitId);
    return grant?.epoch === event.epoch ? grant : undefined;
  }

  /** Runs the handler of one tenancy, and ends the tenancy by what came of it (R37). */
  async #handle(handler: Handler, grant: OpenGrant): Promise<void> {
    const thrown = await outcomeOf(handler, grant);
    // From here on nothing works on the split (R27).
    this.#coordinator.handlerEnded(grant.split.id, grant.epoch);
    if (thrown === null) await this.#returned(grant);
    else await this.#threw(grant, thrown.error);
    this.#forget(grant);
  }

  async #returned(grant: OpenGrant): Promise<void> {
    this.#sayUnlessSettled(grant);
    await grant.settle();
  }

  #sayUnlessSettled({ hasEnded, hasBeenRequested, split, epoch }: OpenGrant): void {
    if (hasEnded || hasBeenRequested) return;
    const text =
      'a handler returned without completing and without having been asked back; the tenancy failed: call complete() when the split is done, release() when it is not';
    this.#log.warn('handler.returned', text, { split: split.id, epoch });
  }

  /** The work on a grant that was taken by hand is over. */
  #over(grant: OpenGrant): void {
    this.#coordinator.handlerEnded(grant.split.id, grant.epoch);
    this.#forget(grant);
  }

  #forget(grant: OpenGrant): void {
    if (this.#grants.get(grant.split.id) === grant) this.#grants.delete(grant.split.id);
  }

  async #threw(grant: OpenGrant, error: unknown): Promise<void> {
    const reason = messageOf(error);
    const fields = { split: grant.split.id, epoch: grant.epoch, reason, err: errorOf(error) };
    if (grant.hasEnded) {
      const text = `a handler threw after its tenancy had ended: ${reason}`;
      this.#log.warn('handler.threwLate', text, fields);
      return;
    }
    this.#log.warn('handler.threw', `a handler threw; the tenancy failed: ${reason}`, fields);
    // Fenced meanwhile: whoever owns the split now decides.
    await grant.fail(reason, retryWishOf(error)).catch(() => undefined);
  }
}

/** Runs the handler; what it threw, whatever that is. */
async function outcomeOf(handler: Handler, grant: OpenGrant): Promise<{ error: unknown } | null> {
  try {
    await handler(grant);
    return null;
  } catch (error) {
    return { error };
  }
}
