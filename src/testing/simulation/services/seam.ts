/** A service that runs its own control loop on the seam: ownership as events, progress as requests, each with its epoch. */
import type {
  CoordinationEvent,
  FailOptions,
  OwnershipEvent,
  Progress,
  ProgressInput,
  ReleaseOptions,
  RevokeReason,
  Split,
} from '../../../coordinator/api/api.ts';
import type { CoordinatorOptions } from '../../../coordinator/api/options.ts';
import { createCoordinator, type SplitCoordinator } from '../../../coordinator/coordinator.ts';
import { DrainingState } from '../../../driver/draining.ts';
import type { Grant } from '../../../driver/grant.ts';
import { retryWishOf } from '../../../driver/retry-errors.ts';
import type { Embedded } from './embedding.ts';
import { textOf } from './thrown.ts';

/** How a service drives the seam. */
interface SeamOptions {
  /** It never says that work has begun or ended. */
  readonly isHeedless: boolean;
  /** A listener beside the one that drives it. */
  readonly hear: (event: CoordinationEvent) => unknown;
}

type Handle = (grant: Grant) => Promise<void>;
type Gained = Extract<OwnershipEvent, { type: 'gained' }>;

/** Builds a worker on the seam. */
export function onSeam(options: CoordinatorOptions, how: SeamOptions): Embedded {
  const coordinator = createCoordinator(options);
  return {
    run: async (handle) => {
      const loop = new ControlLoop(coordinator, handle, how.isHeedless);
      coordinator.listen((event) => how.hear(event));
      coordinator.listen((event) => {
        loop.hear(event);
      });
      coordinator.start();
      try {
        return await coordinator.verdict();
      } finally {
        await coordinator.stop();
      }
    },
    stop: () => coordinator.stop(),
    status: () => coordinator.status(),
  };
}

class ControlLoop {
  readonly #coordinator: SplitCoordinator;
  readonly #handle: Handle;
  readonly #isHeedless: boolean;
  readonly #held = new Map<string, HeldSplit>();

  constructor(coordinator: SplitCoordinator, handle: Handle, isHeedless: boolean) {
    this.#coordinator = coordinator;
    this.#handle = handle;
    this.#isHeedless = isHeedless;
  }

  hear(event: CoordinationEvent): void {
    switch (event.type) {
      case 'gained':
        this.#gained(event);
        return;
      case 'revokeRequested':
        this.#heldOf(event)?.request(event.reason);
        return;
      case 'revokeCancelled': {
        const held = this.#heldOf(event);
        if (held === undefined || held.hasEnded) return;
        held.withdraw();
        this.#coordinator.resumeIntake(event.splitId, event.epoch);
        return;
      }
      case 'lost':
        this.#heldOf(event)?.lose();
        return;
      default:
    }
  }

  #gained(event: Gained): void {
    const held = new HeldSplit(this.#coordinator, event);
    this.#held.set(event.split.id, held);
    if (!this.#isHeedless) this.#coordinator.handlerBegan(event.split.id, event.epoch);
    void this.#work(held);
  }

  async #work(held: HeldSplit): Promise<void> {
    let problem = 'returned without an end';
    let wish: FailOptions = {};
    await this.#handle(held).catch((error: unknown) => {
      problem = textOf(error);
      wish = retryWishOf(error);
    });
    if (!this.#isHeedless) this.#coordinator.handlerEnded(held.split.id, held.epoch);
    if (this.#held.get(held.split.id) === held) this.#held.delete(held.split.id);
    if (held.hasEnded) return;
    const ended = held.wasAsked ? held.release() : held.fail(problem, wish);
    await ended.catch(() => undefined);
  }

  #heldOf(event: { readonly splitId: string; readonly epoch: string }): HeldSplit | undefined {
    const held = this.#held.get(event.splitId);
    return held?.epoch === event.epoch ? held : undefined;
  }
}

/** One tenancy as the loop has it. Everything that is asked of it goes to the seam, also after its loss: that is for the seam to refuse. */
class HeldSplit implements Grant {
  readonly split: Split;
  readonly epoch: string;
  readonly progress: Progress | null;
  readonly draining = new DrainingState();
  readonly #coordinator: SplitCoordinator;
  readonly #lost = new AbortController();
  hasEnded = false;
  wasAsked = false;

  constructor(coordinator: SplitCoordinator, { split, epoch, progress }: Gained) {
    this.#coordinator = coordinator;
    this.split = split;
    this.epoch = epoch;
    this.progress = progress;
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  commit(progress: ProgressInput): Promise<void> {
    return this.#coordinator.commit(this.split.id, progress, this.epoch);
  }

  complete(progress?: ProgressInput): Promise<void> {
    this.hasEnded = true;
    return this.#coordinator.complete(this.split.id, progress ?? null, this.epoch);
  }

  fail(reason: string, options?: FailOptions): Promise<void> {
    this.hasEnded = true;
    return this.#coordinator.fail(this.split.id, reason, this.epoch, options);
  }

  release(options: ReleaseOptions = {}): Promise<void> {
    this.hasEnded = true;
    const { id } = this.split;
    return this.wasAsked && options.afterMs === undefined
      ? this.#coordinator.releaseDrained([id], this.epoch)
      : this.#coordinator.giveUp(id, this.epoch, options);
  }

  finished(): Promise<void> {
    return Promise.resolve();
  }

  request(reason: RevokeReason): void {
    this.wasAsked = true;
    this.draining.request(reason);
  }

  withdraw(): void {
    this.draining.withdraw();
  }

  lose(): void {
    this.hasEnded = true;
    this.#lost.abort();
    this.draining.end();
  }
}
