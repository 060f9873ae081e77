/**
 * Asks every endpoint which cluster it belongs to: clients that were given two clusters in one list, in different orders,
 * would work side by side without knowing of each other.
 *
 * It goes on behind the first answer and holds nothing up. Who is not reached is asked again, ever more seldom. With one
 * endpoint there is nothing to ask.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import type { Sighting } from './cluster.ts';

export interface SurveyPorts {
  readonly endpoints: readonly string[];
  readonly clock: Clock;
  readonly random: Random;
  /** The cluster that a member belongs to; undefined when it does not say, in time. */
  readonly ask: (endpoint: string) => Promise<string | undefined>;
  /** A member belongs to another cluster than the one that is known. */
  readonly onOther: (sighting: Sighting) => Promise<void>;
}

const RETRY_MS_MIN = 1_000;
const RETRY_MS_MAX = 60_000;

export class Survey {
  readonly #ports: SurveyPorts;
  /** Tells a round that it was overtaken. */
  #generation = 0;
  #retry: Timer | undefined;

  constructor(ports: SurveyPorts) {
    this.#ports = ports;
  }

  /** Begins with everybody else than the member that is known. */
  start({ endpoint, clusterId }: Sighting): void {
    this.stop();
    const others = this.#ports.endpoints.filter((other) => other !== endpoint);
    void this.#ask(others, clusterId, RETRY_MS_MIN);
  }

  stop(): void {
    this.#generation += 1;
    if (this.#retry !== undefined) this.#ports.clock.clearTimeout(this.#retry);
    this.#retry = undefined;
  }

  /** Asks all others at once, and tells of the first that belongs to another cluster; undefined when none does. */
  findRival({ endpoint, clusterId }: Sighting): Promise<Sighting | undefined> {
    const others = this.#ports.endpoints.filter((other) => other !== endpoint);
    return new Promise((resolve, reject) => {
      const asking = others.map(async (other) => {
        const found = await this.#ports.ask(other);
        if (found !== undefined && found !== clusterId) {
          resolve({ endpoint: other, clusterId: found });
        }
      });
      Promise.all(asking).then(() => {
        resolve(undefined);
      }, reject);
    });
  }

  async #ask(endpoints: readonly string[], clusterId: string, pauseMs: number): Promise<void> {
    const generation = this.#generation;
    const { ask, onOther, clock, random } = this.#ports;
    const unknown: string[] = [];
    const asking = endpoints.map(async (endpoint) => {
      const found = await ask(endpoint);
      if (found === clusterId || generation !== this.#generation) return;
      unknown.push(endpoint);
      if (found !== undefined) await onOther({ endpoint, clusterId: found });
    });
    await Promise.all(asking);
    if (unknown.length === 0 || generation !== this.#generation) return;
    const jitter = 0.5 + random.next() / 2;
    this.#retry = clock.setTimeout(() => {
      void this.#ask(unknown, clusterId, Math.min(RETRY_MS_MAX, 2 * pauseMs));
    }, pauseMs * jitter);
  }
}
