/**
 * Opens and ends sessions: leases of etcd, under an id that the caller chose (R4).
 *
 * Only here do milliseconds become etcd's whole seconds, rounded up.
 */
import type { Clock } from '../../base/clock.ts';
import { invariant, LeaseholdError } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import type { CallOptions, SessionGrant } from '../port.ts';
import type { Caller } from './caller.ts';
import { isLeaseExisting, isLeaseUnknown } from './failures.ts';
import { leaseOf } from './wire.ts';

export class Sessions {
  readonly #caller: Caller;
  readonly #clock: Clock;

  constructor(caller: Caller, clock: Clock) {
    this.#caller = caller;
    this.#clock = clock;
  }

  /**
   * A session that lives answers with the life it has, whatever is asked for now.
   *
   * @throws `E_STORE_UNSUPPORTED` when etcd grants no life as short as `ttlMs`; nothing stays open then.
   */
  async open(id: SessionId, ttlMs: number, { timeoutMs }: CallOptions): Promise<SessionGrant> {
    invariant(ttlMs > 0, `a session of ${ttlMs} ms: a TTL is above 0`);
    const endMs = this.#clock.nowMs() + timeoutMs;
    const leftMs = () => Math.max(1, endMs - this.#clock.nowMs());
    const seconds = Math.ceil(ttlMs / 1000);
    const granted = await this.#grant(id, seconds, timeoutMs);
    if (granted === null) return { ttlMs: (await this.#grantedBefore(id, leftMs())) * 1000 };
    if (granted > seconds) {
      await this.close(id, { timeoutMs: leftMs() }).catch(() => undefined);
      throw tooShort(ttlMs, granted);
    }
    return { ttlMs: granted * 1000 };
  }

  async close(id: SessionId, { timeoutMs }: CallOptions): Promise<void> {
    const lease = leaseOf(id);
    await this.#caller.write({
      name: 'closeSession',
      timeoutMs,
      isLinearizable: true,
      send: (client, options) =>
        client.leaseClient.leaseRevoke({ ID: lease }, options).catch((thrown: unknown) => {
          if (isLeaseUnknown(thrown)) return null;
          throw thrown;
        }),
      header: (answer) => answer?.header ?? null,
    });
  }

  /** Seconds granted; null when the session was open already. */
  async #grant(id: SessionId, seconds: number, timeoutMs: number): Promise<number | null> {
    const lease = leaseOf(id);
    const answer = await this.#caller.write({
      name: 'openSession',
      timeoutMs,
      isLinearizable: true,
      send: (client, options) =>
        client.leaseClient.leaseGrant({ ID: lease, TTL: seconds }, options).catch(
          // etcd's way of saying that the grant before, whose answer was lost, had landed.
          (thrown: unknown) => {
            if (isLeaseExisting(thrown)) return null;
            throw thrown;
          },
        ),
      header: (given) => given?.header ?? null,
    });
    return answer === null ? null : Number(answer.TTL);
  }

  async #grantedBefore(id: SessionId, timeoutMs: number): Promise<number> {
    const { grantedTTL, TTL } = await this.#caller.read({
      name: 'openSession',
      timeoutMs,
      isLinearizable: false,
      send: (client, options) =>
        client.leaseClient.leaseTimeToLive({ ID: leaseOf(id), keys: false }, options),
      header: (answer) => answer.header,
    });
    if (Number(TTL) >= 0) return Number(grantedTTL);
    // It ran out in between.
    throw new LeaseholdError(
      'E_STORE_UNREACHABLE',
      `session ${id} has just expired: open it again`,
    );
  }
}

function tooShort(ttlMs: number, granted: number): LeaseholdError {
  const leastMs = granted * 1000;
  return new LeaseholdError(
    'E_STORE_UNSUPPORTED',
    `a lease of ${ttlMs} ms is shorter than this etcd grants: the least is ${leastMs} ms ` +
      `(1.5 times its --election-timeout, in whole seconds). Use a longer lease, or a shorter election timeout`,
    { details: { askedMs: ttlMs, leastMs } },
  );
}
