/**
 * A worker on the seam as tests have it: requests that hand a split back mean its newest tenancy when none is named. Commits
 * name theirs, or say with `commitNow` that they mean the newest.
 */
import { quiet } from '../../src/base/answer.ts';
import type {
  CoordinationEvent,
  EventStream,
  FailOptions,
  ProgressInput,
  ReleaseOptions,
  SplitCoordinator,
  Status,
  StopReport,
  Verdict,
} from '../../src/index.ts';

type Committed = ProgressInput & { readonly completed?: boolean };

export class TestSeam {
  readonly instanceId: string;
  readonly #coordinator: SplitCoordinator;
  /** The newest epoch of each split that was gained. */
  readonly #epochs = new Map<string, string>();

  constructor(coordinator: SplitCoordinator) {
    this.#coordinator = coordinator;
    this.instanceId = coordinator.instanceId;
    coordinator.listen((event) => {
      if (event.type === 'gained') this.#epochs.set(event.split.id, event.epoch);
    });
  }

  start(): void {
    this.#coordinator.start();
  }

  events(): EventStream {
    return this.#coordinator.events();
  }

  listen(listener: (event: CoordinationEvent) => unknown): () => void {
    return this.#coordinator.listen(listener);
  }

  commit(splitId: string, progress: Committed, epoch: string): Promise<void> {
    return this.#coordinator.commit(splitId, progress, epoch);
  }

  /** Commits in the newest tenancy. */
  commitNow(splitId: string, progress: Committed): Promise<void> {
    return this.#coordinator.commit(splitId, progress, this.#epochOf(splitId));
  }

  complete(splitId: string, progress: ProgressInput | null, epoch: string): Promise<void> {
    return this.#coordinator.complete(splitId, progress, epoch);
  }

  fail(
    splitId: string,
    reason: string,
    epoch = this.#epochOf(splitId),
    options?: FailOptions,
  ): Promise<void> {
    return this.#coordinator.fail(splitId, reason, epoch, options);
  }

  release(splitIds: readonly string[]): Promise<void> {
    return this.#coordinator.release(splitIds);
  }

  releaseDrained(splitIds: readonly string[], epoch?: string): Promise<void> {
    const all = splitIds.map((id) =>
      this.#coordinator.releaseDrained([id], epoch ?? this.#epochOf(id)),
    );
    // As those of the seam: nobody has to hear that it was refused.
    return quiet(Promise.all(all).then(() => undefined));
  }

  giveUp(
    splitId: string,
    epoch = this.#epochOf(splitId),
    options?: ReleaseOptions,
  ): Promise<void> {
    return this.#coordinator.giveUp(splitId, epoch, options);
  }

  declineRevoke(splitId: string, epoch = this.#epochOf(splitId)): void {
    this.#coordinator.declineRevoke(splitId, epoch);
  }

  resumeIntake(splitId: string, epoch = this.#epochOf(splitId)): void {
    this.#coordinator.resumeIntake(splitId, epoch);
  }

  handlerBegan(splitId: string, epoch = this.#epochOf(splitId)): void {
    this.#coordinator.handlerBegan(splitId, epoch);
  }

  handlerEnded(splitId: string, epoch = this.#epochOf(splitId)): void {
    this.#coordinator.handlerEnded(splitId, epoch);
  }

  verdict(): Promise<Verdict> {
    return this.#coordinator.verdict();
  }

  stop(): Promise<StopReport> {
    return this.#coordinator.stop();
  }

  status(): Status {
    return this.#coordinator.status();
  }

  #epochOf(splitId: string): string {
    return this.#epochs.get(splitId) ?? '0';
  }
}
