/**
 * The startup probe: tries, in a private key, everything that fencing depends on. A store that lies is refused with the
 * rule it broke, before it can lose anybody's work.
 */
import { ABSENT, type Revision } from '../../base/decimals.ts';
import { LeaseholdError } from '../../base/errors.ts';
import type { SessionId } from '../../base/ids.ts';
import type { Entry, Key, Txn, TxnOutcome, Write } from '../../store/port.ts';
import type { StoreGate } from './store-gate.ts';

/**
 * Probes the store through `gate` in `key`, which nobody else writes.
 *
 * @throws LeaseholdError `E_STORE_UNSUPPORTED` naming the broken rule; `unavailable` and `indeterminate` as they come:
 *   try again with another key.
 */
export async function probeStore(
  gate: StoreGate,
  key: Key,
  session: SessionId,
  ttlMs: number,
): Promise<void> {
  const probe = new Probe(gate, key);
  const created = await probe.expectCommit('a create of an absent key wins', ABSENT, put(key, 'a'));
  await probe.expectConflict('a create of a present key loses', ABSENT, put(key, 'b'), 'a');
  const updated = await probe.expectCommit(
    'an update at the right revision wins',
    created,
    put(key, 'c'),
  );
  await probe.expectConflict('an update at a stale revision loses', created, put(key, 'd'), 'c');
  await probe.expectConflict('a delete at a stale revision loses', created, remove(key), 'c');
  await probe.expectCommit('a delete at the right revision wins', updated, remove(key));
  await probe.expectEntry('a deleted key is absent', null);

  await gate.openSession(session, ttlMs);
  await probe.expectCommit('a put under a session wins', ABSENT, put(key, 'e', session));
  await probe.expectEntry('a key shows the session it hangs on', session, () =>
    // A process that was stopped for longer than the session lives finds nothing, and the store has not lied.
    gate.keepAlive(session, ttlMs),
  );
  await gate.closeSession(session);
  await probe.expectEntry('a closed session takes its keys along', null);
}

class Probe {
  readonly #gate: StoreGate;
  readonly #key: Key;

  constructor(gate: StoreGate, key: Key) {
    this.#gate = gate;
    this.#key = key;
  }

  async expectCommit(rule: string, equals: Revision, write: Write): Promise<Revision> {
    const outcome = await this.#try(equals, write);
    if (outcome.kind !== 'committed') throw lie(rule, this.#key);
    return outcome.revision;
  }

  async expectConflict(rule: string, equals: Revision, write: Write, holds: string): Promise<void> {
    const outcome = await this.#try(equals, write);
    if (outcome.kind !== 'conflict' || outcome.found[0]?.value !== holds)
      throw lie(rule, this.#key);
    const entry = await this.#read();
    if (entry?.value !== holds) throw lie(`${rule} and changes nothing`, this.#key);
  }

  /**
   * The key hangs on `session`, or is absent when that is null.
   *
   * @param excuse  Asked when it does not; rejects when that proves nothing.
   */
  async expectEntry(
    rule: string,
    session: SessionId | null,
    excuse?: () => Promise<unknown>,
  ): Promise<void> {
    const entry = await this.#read();
    const holds = session === null ? entry === undefined : entry?.session === session;
    if (holds) return;
    await excuse?.();
    throw lie(rule, this.#key);
  }

  async #read(): Promise<Entry | undefined> {
    const { entries } = await this.#gate.readKeys([this.#key]);
    return entries.get(this.#key);
  }

  async #try(equals: Revision, write: Write): Promise<TxnOutcome> {
    const txn: Txn = {
      compares: [{ key: this.#key, target: 'modRevision', equals }],
      writes: [write],
      onConflict: [this.#key],
    };
    const outcome = await this.#gate.transact({ guard: [], txns: [txn] });
    if (outcome.kind !== 'tried') throw lie('a batch without a guard is tried', this.#key);
    const first = outcome.outcomes[0];
    if (first === undefined) throw lie('every transaction is answered', this.#key);
    return first;
  }
}

function put(key: Key, value: string, session: SessionId | null = null): Write {
  return { put: key, value, session };
}

function remove(key: Key): Write {
  return { delete: key };
}

function lie(rule: string, key: Key): LeaseholdError {
  return new LeaseholdError(
    'E_STORE_UNSUPPORTED',
    `the store broke a rule that fencing depends on: ${rule}. Use a store that keeps it`,
    { details: { rule, key } },
  );
}
