/**
 * Says when splits wait for a place that nobody gives them, and why: once when it has lasted a lease, once when it is over
 * (R60). It belongs to one leader's term.
 */
import type { Timer } from '../../base/clock.ts';
import type { SplitId } from '../../base/ids.ts';
import {
  pausedUnplaced,
  SAMPLE_MAX,
  type Unplaced,
  unplacedOf,
  type UnplacedPart,
  type UnplacedSight,
} from '../../protocol/unplaced.ts';
import type { Core } from '../link/core.ts';
import type { Peers } from '../membership/peers.ts';
import type { SplitIndex } from './split-index.ts';

/** What a person has to do something about; everything else passes by itself, or was asked for. */
const TOLD = ['noRoom', 'nobodyMay', 'barred'] as const;
type TellableReason = (typeof TOLD)[number];

const WHY: Readonly<Record<TellableReason, string>> = {
  noRoom: 'every lane is taken; more workers or a larger maxInFlight would run them',
  nobodyMay:
    'no worker may take them: each is cordoned, drained, spared because everything fails there, or has maxInFlight 0',
  barred: 'every worker that has lanes refuses them',
};

/** A decision, and what it left over. */
type Decision = Pick<UnplacedSight, 'instances' | 'splits' | 'unassigned' | 'suspects'> & {
  readonly withheld: ReadonlySet<SplitId>;
};

/** What waits for one reason, since the first decision that left it over. */
interface Wait {
  /** Null once it was told. */
  timer: Timer | null;
}

export class UnplacedWatch {
  readonly #core: Core;
  readonly #peers: Peers;
  readonly #waits = new Map<TellableReason, Wait>();
  #unplaced: Unplaced | null = null;

  constructor(core: Core, peers: Peers) {
    this.#core = core;
    this.#peers = peers;
  }

  /** As the last decision left it; null before the first one. */
  of(index: SplitIndex): Unplaced | null {
    const { view } = this.#core;
    if (!view.isPaused) return this.#unplaced;
    const count = Math.max(0, index.runnableCount - view.leases.size);
    return pausedUnplaced(count, index.heaviestIdle(SAMPLE_MAX).slice(0, SAMPLE_MAX).map(idOf));
  }

  /** A decision was taken; `restEndMs` is when the next rest ends, by the monotonic clock. */
  decided(index: SplitIndex, { withheld, ...decision }: Decision, restEndMs: number | null): void {
    const left = new Set(decision.unassigned);
    const placed = decision.splits.filter(({ id }) => !left.has(id));
    const restingPlaced = placed.filter((split) => index.isResting(split)).length;
    this.#unplaced = unplacedOf({
      ...decision,
      idle: {
        count: index.idleCount,
        has: (id) => index.isIdle(id),
        some: (count) => index.heaviestIdle(count).map(idOf),
      },
      withheld: { splits: withheld, until: this.#wallMs(this.#peers.nextGivenUpMs()) },
      resting: {
        count: index.restingCount - restingPlaced,
        sample: index.someResting(SAMPLE_MAX),
        until: this.#wallMs(restEndMs),
      },
    });
    const hasPlaced = placed.some(({ owner }) => owner === null);
    for (const reason of TOLD) this.#update(reason, hasPlaced);
  }

  /** The term is over: the next leader looks for itself. */
  stop(): void {
    for (const { timer } of this.#waits.values()) {
      if (timer !== null) this.#core.clock.clearTimeout(timer);
    }
    this.#waits.clear();
    this.#unplaced = null;
  }

  #update(reason: TellableReason, hasPlaced: boolean): void {
    const wait = this.#waits.get(reason);
    if (this.#part(reason) === undefined) this.#over(reason, wait);
    else if (wait === undefined) this.#waits.set(reason, { timer: this.#tellLater(reason) });
    else if (hasPlaced && wait.timer !== null) {
      // A queue that moves is no trouble.
      this.#core.clock.clearTimeout(wait.timer);
      wait.timer = this.#tellLater(reason);
    }
  }

  #wallMs(ms: number | null): number | null {
    const { clock } = this.#core;
    return ms === null ? null : Math.round(clock.wallMs() + ms - clock.nowMs());
  }

  #part(reason: TellableReason): UnplacedPart | undefined {
    return this.#unplaced?.parts.find((part) => part.reason === reason);
  }

  #tellLater(reason: TellableReason): Timer {
    return this.#core.after(this.#core.config.leaseDurationMs, () => {
      const part = this.#part(reason);
      const wait = this.#waits.get(reason);
      if (part === undefined || wait === undefined) return;
      // Nothing is decided meanwhile.
      wait.timer = this.#core.view.isPaused ? this.#tellLater(reason) : null;
      if (wait.timer === null) this.#tell(reason, part);
    });
  }

  #tell(reason: TellableReason, { count, splits }: UnplacedPart): void {
    const { log, events } = this.#core;
    const text = `${count} splits wait for a place: ${WHY[reason]}`;
    log.warn('splits.unplaced', text, { reason, count, splits });
    events.emit({ type: 'unplaced', reason, count, splits });
  }

  #over(reason: TellableReason, wait: Wait | undefined): void {
    if (wait === undefined) return;
    this.#waits.delete(reason);
    if (wait.timer !== null) {
      this.#core.clock.clearTimeout(wait.timer);
      return;
    }
    const { log, events } = this.#core;
    log.info('splits.placed', 'no split waits for a place any more for this reason', { reason });
    events.emit({ type: 'placed', reason });
  }
}

const idOf = ({ id }: { readonly id: SplitId }): SplitId => id;
