/**
 * When a worker stands for election: candidates come one after the other, by the order of their announcements, and again
 * each third of a lease while nobody leads; one that resigned for cause rests first (R18, R20).
 */
import { isLeaseholdError } from '../../base/errors.ts';
import { hash32 } from '../../base/hash.ts';
import { candidacyDelayMs, jitter, resignationPauseMs } from '../../protocol/timing.ts';
import type { Core } from '../link/core.ts';
import { joinJob } from '../membership/join.ts';
import type { Peers } from '../membership/peers.ts';

const SEEK_PAUSE_MS = 200;
/** A term of more leases than this wipes the slate of earlier resignations clean: as long as the longest pause. */
const GOOD_TERM_LEASES = 10;

export class Candidacy {
  readonly #core: Core;
  readonly #peers: Peers;
  readonly #seed: number;
  /** Turns in this vacancy: the first goes by rank. */
  #turns = 0;
  #resignations = 0;

  constructor(core: Core, peers: Peers) {
    this.#core = core;
    this.#peers = peers;
    this.#seed = hash32(0, core.me);
  }

  /** Somebody leads: the next vacancy is a new one. */
  leaderSeen(): void {
    this.#turns = 0;
  }

  /** How long to wait for the next turn. */
  nextDelayMs(): number {
    const { config, me } = this.#core;
    const { leaseDurationMs } = config;
    const turn = this.#turns;
    this.#turns += 1;
    if (turn > 0) return jitter(this.#seed, turn, leaseDurationMs / 3);
    const rank = this.#peers.members().findIndex((member) => member.instance === me);
    return candidacyDelayMs(Math.max(0, rank), leaseDurationMs);
  }

  /** How long to rest after a term given up for cause: one lease, doubling to ten, and `leastMs` at least (R18). */
  restMs(termStartedAtMs: number, leastMs: number): number {
    const { clock, config } = this.#core;
    const ledForMs = clock.nowMs() - termStartedAtMs;
    // A long good term makes up for the bad ones before it.
    this.#resignations =
      ledForMs > GOOD_TERM_LEASES * config.leaseDurationMs ? 1 : this.#resignations + 1;
    return Math.max(leastMs, resignationPauseMs(this.#resignations, config.leaseDurationMs));
  }

  /** No plan and no leader: it is created again, unless records prove that it was lost (R42). Always answers. */
  seekPlan(sought: () => void): void {
    const later = (): void => {
      this.#core.after(SEEK_PAUSE_MS, sought);
    };
    joinJob(this.#core).then(later, (error: unknown) => {
      if (!isLeaseholdError(error)) this.#core.bug(error);
      else if (error.kind === 'fatal' && error.code !== 'E_STORE_DENIED') this.#core.fatal(error);
      later();
    });
  }
}
