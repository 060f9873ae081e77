/**
 * When a worker stands for election: candidates come one after the other, by the order of their announcements, and again
 * each third of a lease while nobody leads; one that resigned for cause waits (R18, R20).
 */
import { isLeaseholdError } from '../../base/errors.ts';
import { hash32 } from '../../base/hash.ts';
import { candidacyDelayMs, jitter, resignationPauseMs } from '../../protocol/timing.ts';
import type { Core } from '../link/core.ts';
import { joinJob } from '../membership/join.ts';
import type { Peers } from '../membership/peers.ts';

const READ_RETRY_MS = 200;
/** A term of more leases than this wipes the slate of earlier resignations clean: as long as the longest pause. */
const GOOD_TERM_LEASES = 10;

export class Candidacy {
  readonly #core: Core;
  readonly #peers: Peers;
  readonly #seed: number;
  #vacancyTries = 0;
  #resignations = 0;
  #standsAgainAtMs = 0;
  #isEnsuringPlan = false;
  /** The chart's candidacy timer runs. */
  isArmed = false;

  constructor(core: Core, peers: Peers) {
    this.#core = core;
    this.#peers = peers;
    this.#seed = hash32(0, core.me);
  }

  /** Somebody leads. */
  leaderSeen(): void {
    this.#vacancyTries = 0;
    this.isArmed = false;
  }

  /** The delay of the next candidacy, first by rank; null while there is no plan to lead. */
  nextDelayMs(): number | null {
    const { clock, config, view, me } = this.#core;
    if (view.plan.kind !== 'seen') {
      this.#ensurePlan();
      return null;
    }
    const { leaseDurationMs } = config;
    const rank = this.#peers.members().findIndex((member) => member.instance === me);
    const delayMs =
      this.#vacancyTries === 0
        ? candidacyDelayMs(Math.max(0, rank), leaseDurationMs)
        : jitter(this.#seed, this.#vacancyTries, leaseDurationMs / 3);
    this.#vacancyTries += 1;
    this.isArmed = true;
    return Math.max(delayMs, this.#standsAgainAtMs - clock.nowMs());
  }

  /** A term ended for cause: no candidacy for one lease, doubling to ten, and `holdOffMs` at least (R18). */
  resigned(termStartedAtMs: number, holdOffMs: number): void {
    const { clock, config } = this.#core;
    const ledForMs = clock.nowMs() - termStartedAtMs;
    // A long good term makes up for the bad ones before it.
    this.#resignations =
      ledForMs > GOOD_TERM_LEASES * config.leaseDurationMs ? 1 : this.#resignations + 1;
    const pauseMs = resignationPauseMs(this.#resignations, config.leaseDurationMs);
    this.#standsAgainAtMs = clock.nowMs() + Math.max(pauseMs, holdOffMs);
  }

  /** No plan and no leader: it is created again, unless records prove that it was lost (R42). */
  #ensurePlan(): void {
    const { view, mailbox, clock } = this.#core;
    if (view.plan.kind !== 'absent' || this.#isEnsuringPlan) return;
    this.#isEnsuringPlan = true;
    const later = (): void => {
      clock.setTimeout(() => {
        mailbox.post(() => {
          this.#isEnsuringPlan = false;
        });
      }, READ_RETRY_MS);
    };
    joinJob(this.#core).then(later, (error: unknown) => {
      if (!isLeaseholdError(error)) throw error;
      if (error.kind === 'fatal') this.#core.fatal(error);
      later();
    });
  }
}
