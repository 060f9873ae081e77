/**
 * What a service embeds: a worker that runs a handler once per tenancy, or hands grants out.
 *
 * Stands on the seam (`SplitCoordinator`); rules R27, R33-R37.
 */
import { isLeaseholdError, LeaseholdError, messageOf } from '../base/errors.ts';
import { type Logger, SILENT_LOGGER } from '../base/logger.ts';
import type { CoordinationEvent, StopReport, Verdict } from '../coordinator/api/api.ts';
import type { EventStream } from '../coordinator/api/events.ts';
import type { CoordinatorOptions } from '../coordinator/api/options.ts';
import { createCoordinator, type SplitCoordinator } from '../coordinator/coordinator.ts';
import type { Status } from '../coordinator/status.ts';
import { type Grant, OpenGrant } from './grant.ts';

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
   * completed, failed or released; at `lost` the work on it must stop by itself. Ends when the worker does.
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

class DrivenWorker implements Worker {
  readonly instanceId: string;
  readonly #coordinator: SplitCoordinator;
  readonly #logger: Logger;
  readonly #grants = new Map<string, OpenGrant>();
  #onGrant: ((grant: OpenGrant) => void) | null = null;

  constructor(options: WorkerOptions) {
    this.#coordinator = createCoordinator(options);
    this.#logger = options.logger ?? SILENT_LOGGER;
    this.instanceId = this.#coordinator.instanceId;
  }

  async run(handler: Handler, options: { readonly signal?: AbortSignal } = {}): Promise<Verdict> {
    const { signal } = options;
    signal?.throwIfAborted();
    this.#start((grant) => {
      void this.#handle(handler, grant);
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
    const queue = new GrantQueue();
    this.#start((grant) => {
      queue.push(grant);
    });
    void this.#coordinator
      .verdict()
      .catch(() => undefined)
      .then(() => {
        queue.end();
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

  #start(onGrant: (grant: OpenGrant) => void): void {
    if (this.#onGrant !== null) {
      throw new LeaseholdError(
        'E_ALREADY_STARTED',
        'run() or grants() was called already; build another worker',
      );
    }
    this.#onGrant = onGrant;
    this.#coordinator.listen((event) => {
      this.#on(event);
    });
    this.#coordinator.start();
  }

  #on(event: CoordinationEvent): void {
    switch (event.type) {
      case 'gained': {
        const grant = new OpenGrant(this.#coordinator, event);
        this.#grants.set(event.split.id, grant);
        this.#onGrant!(grant);
        return;
      }
      case 'revokeRequested':
        this.#grantOf(event)?.request(event.reason);
        return;
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
        this.#grants.delete(event.splitId);
        grant?.lose();
        return;
      }
      case 'verdict':
      case 'quarantined':
      case 'leadershipGained':
      case 'leadershipLost':
      case 'sessionLost':
      case 'plannerFailed':
        return;
    }
  }

  #grantOf(event: { splitId: string; epoch: string }): OpenGrant | undefined {
    const grant = this.#grants.get(event.splitId);
    return grant?.epoch === event.epoch ? grant : undefined;
  }

  /** Runs the handler of one tenancy, and ends the tenancy by what came of it (R37). */
  async #handle(handler: Handler, grant: OpenGrant): Promise<void> {
    const splitId = grant.split.id;
    const outlives = (): void => {
      // No new tenancy of the split starts while this handler runs (R27).
      this.#coordinator.handlerOutlives(splitId);
    };
    grant.lost.addEventListener('abort', outlives, { once: true });
    try {
      await handler(grant);
      await this.#returned(grant);
    } catch (error) {
      await this.#threw(grant, error);
    } finally {
      grant.lost.removeEventListener('abort', outlives);
      if (grant.isLost) this.#coordinator.handlerEnded(splitId);
      if (this.#grants.get(splitId) === grant) this.#grants.delete(splitId);
    }
  }

  async #returned(grant: OpenGrant): Promise<void> {
    if (grant.hasEnded) return;
    if (grant.hasBeenRequested) await grant.release();
    else await grant.fail('returned without completing');
  }

  async #threw(grant: OpenGrant, error: unknown): Promise<void> {
    const fields = { split: grant.split.id, epoch: grant.epoch, reason: messageOf(error) };
    if (grant.hasEnded) {
      this.#logger.warn(
        { event: 'handler.threwLate', ...fields },
        'a handler threw after its tenancy had ended',
      );
      return;
    }
    this.#logger.warn({ event: 'handler.threw', ...fields }, 'a handler threw; the tenancy failed');
    await grant.fail(messageOf(error)).catch((refused: unknown) => {
      // Fenced meanwhile: whoever owns the split now decides.
      if (!isLeaseholdError(refused)) throw refused;
    });
  }
}

/** Grants that wait to be taken: at most as many as the worker may hold. */
class GrantQueue implements AsyncIterableIterator<Grant> {
  readonly #queue: Grant[] = [];
  readonly #readers: ((result: IteratorResult<Grant>) => void)[] = [];
  #hasEnded = false;

  push(grant: Grant): void {
    const reader = this.#readers.shift();
    if (reader === undefined) this.#queue.push(grant);
    else reader({ done: false, value: grant });
  }

  end(): void {
    this.#hasEnded = true;
    for (const reader of this.#readers.splice(0)) reader({ done: true, value: undefined });
  }

  next(): Promise<IteratorResult<Grant>> {
    let grant = this.#queue.shift();
    // Lost before anybody took it: nothing may be done with it any more.
    while (grant?.lost.aborted === true) grant = this.#queue.shift();
    if (grant !== undefined) return Promise.resolve({ done: false, value: grant });
    if (this.#hasEnded) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => {
      this.#readers.push(resolve);
    });
  }

  return(): Promise<IteratorResult<Grant>> {
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
