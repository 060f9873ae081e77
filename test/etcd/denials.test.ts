/** What etcd refuses to a worker that is at work: a role that is revoked, a password that is changed, for a while or longer. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { ids, type HandledWorker, JOB } from '../support/fleet.ts';
import { patiently } from '../support/patience.js';
import { type EtcdFleet, LEASE_MS, seconds, startFleet } from './support/fleet.ts';
import type { Gateway, Json } from './support/server/gateway.ts';
import { machineMs } from './support/time-line.ts';

const SPLITS = ids(4);
const PREFIX = 'test/';
const ROOT = `${PREFIX}${JOB}/`;
const PASSWORD = 'secret';
/** Longer than six seconds, as a role was revoked in life. */
const LONG_LEASE_MS = seconds(8);
/** Of a machine and an etcd on top of what leases take. */
const SLACK_MS = patiently(2_000);

let fleet: EtcdFleet | undefined;
let gateway: Gateway;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

/** Workers `a` and `b`, users of the same names, at work; `a` leads. */
async function atWork(leaseDurationMs: number): Promise<[HandledWorker, HandledWorker]> {
  const users = ['a', 'b'].map((name) => ({ name, password: PASSWORD, prefix: PREFIX }));
  const config = {
    leaseDurationMs,
    opTimeoutMs: leaseDurationMs / 3,
    drainDeadlineMs: leaseDurationMs,
  };
  const started = await startFleet(
    { splits: SPLITS, config: { ...config, replanIntervalMs: leaseDurationMs } },
    { auth: { rootPassword: 'root', users } },
  );
  ({ fleet } = started);
  ({ gateway } = started.server);
  const start = (username: string): HandledWorker =>
    fleet!.start(username, { store: { auth: { username, password: PASSWORD } } });
  const a = start('a');
  await fleet.until('a leads', () => a.worker.status().isLeading);
  const b = start('b');
  await fleet.until('both work', () =>
    [a, b].every(({ id }) => fleet!.leasesOf(id).length === 2 && isAtWork(id)),
  );
  return [a, b];
}

/** It has committed something lately. */
function isAtWork(worker: string, sinceMs = machineMs() - patiently(500)): boolean {
  return fleet!.timeLine.has({ worker, what: 'committed', sinceMs });
}

const spanOf = (from: string, to: string): Json => ({
  key: Buffer.from(from).toString('base64'),
  range_end: Buffer.from(to).toString('base64'),
});
const endOf = (prefix: string): string =>
  prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
const ALL = spanOf(PREFIX, endOf(PREFIX));
const grant = (user: string, span: Json): Promise<Json> =>
  gateway.call('auth/role/grant', {
    name: `${user}-keys`,
    perm: { permType: 'READWRITE', ...span },
  });
const revoke = (user: string, span: Json): Promise<Json> =>
  gateway.call('auth/role/revoke', { role: `${user}-keys`, ...span });

const logged = ({ lines }: HandledWorker, event: string): string[] =>
  lines.filter((line) => line.event === event).map(({ message }) => message);
const told = (worker: HandledWorker, what: string, sinceMs = 0): number =>
  fleet!.timeLine.all({ worker: worker.id, what, sinceMs }).length;

describe('denied for less than a lease', () => {
  test('denied - a role revoked for six seconds, and a password changed and put back, cost at most that (R45)', async () => {
    const workers = await atWork(LONG_LEASE_MS);
    const [a] = workers;
    const outages = [
      [() => revoke('a', ALL), () => grant('a', ALL), 6_000],
      [
        () => gateway.call('auth/user/changepw', { name: 'a', password: 'another' }),
        () => gateway.call('auth/user/changepw', { name: 'a', password: PASSWORD }),
        2_000,
      ],
    ] as const;
    for (const [begin, end, forMs] of outages) {
      await begin();
      const deniedMs = machineMs();
      await fleet!.until('it says so', () => a.worker.status().charts.link === 'denied', 2_000);
      expect(a.worker.status().failing[0]).toMatchObject({ code: 'E_STORE_DENIED' });
      await sleep(deniedMs + forMs - machineMs());
      await end();
      const endedMs = machineMs();
      await fleet!.until(
        'it works again',
        () => isAtWork('a', endedMs),
        LONG_LEASE_MS / 3 + SLACK_MS,
      );
      await fleet!.until('and says so', () => a.worker.status().charts.link === 'serving');
    }
    expect(logged(a, 'store.denied').length).toBeGreaterThanOrEqual(2);
    expect(logged(a, 'store.healed')).toHaveLength(2);
    for (const worker of workers) {
      expect([
        told(worker, 'lost'),
        told(worker, 'sessionLost'),
        told(worker, 'leadershipLost'),
      ]).toEqual([0, 0, 0]);
      expect(worker.run.state).toBe('pending');
    }
    expect(await fleet!.verify()).toEqual([]);
  });
});

describe('denied for longer than a lease', () => {
  test('denied - handlers stop, the leader resigns, the worker says why, and is back by itself once it may (R45)', async () => {
    const [a, b] = await atWork(LEASE_MS);
    const nonce = a.worker.status().nonce;
    await revoke('a', ALL);
    const deniedMs = machineMs();
    await fleet!.until(
      'its handlers stop',
      () => told(a, 'ended', deniedMs) === 2,
      LEASE_MS + SLACK_MS,
    );
    await fleet!.until('it leads no more', () => !a.worker.status().isLeading, SLACK_MS);
    // From here on renewals that would still succeed hold nothing hostage.
    await fleet!.until(
      'b leads and serves all',
      () => fleet!.leader() === 'b' && fleet!.leasesOf('b').length === 4 && isAtWork('b'),
      2 * LEASE_MS + SLACK_MS,
    );
    const { charts, failing } = a.worker.status();
    expect(charts).toMatchObject({ presence: 'rejoining.barred', link: 'barred' });
    expect(failing.map(({ code }) => code)).toContain('E_STORE_DENIED');
    expect(logged(a, 'store.denied')[0]).toMatch(/etcd refuses this client.*permission denied/);
    expect(logged(a, 'store.barred')).toHaveLength(1);
    expect(a.events.filter(({ type }) => type === 'sessionLost')).toMatchObject([
      { reason: 'denied' },
    ]);
    expect(a.run.state).toBe('pending');
    await grant('a', ALL);
    await fleet!.until(
      'a has its share again',
      () => fleet!.leasesOf('a').length === 2 && isAtWork('a'),
    );
    expect(a.worker.status()).toMatchObject({ presence: 'present', nonce });
    expect(logged(a, 'store.healed')).toHaveLength(1);
    expect([a.run.state, b.run.state]).toEqual(['pending', 'pending']);
    expect(fleet!.timeLine.overlaps()).toEqual([]);
    expect(await fleet!.verify()).toEqual([]);
  });

  test('denied - a leader that may not read the assignments leads no more, says why, and is back as a follower (R18, R45)', async () => {
    const [a, b] = await atWork(LEASE_MS);
    const assignments = `${ROOT}assign/`;
    await grant('a', spanOf(PREFIX, assignments));
    await grant('a', spanOf(endOf(assignments), endOf(PREFIX)));
    await grant('a', { key: Buffer.from(`${assignments}a`).toString('base64') });
    await revoke('a', ALL);
    const deniedMs = machineMs();
    await fleet!.until(
      'b leads',
      () => fleet!.leader() === 'b' && b.worker.status().isLeading,
      // It is the backstop for lost events that reads them.
      seconds(4) + 2 * LEASE_MS + SLACK_MS,
    );
    expect(logged(a, 'store.denied').join()).toMatch(/read assign\/ as leader/);
    expect(told(a, 'leadershipLost')).toBe(1);
    await fleet!.stays('a does not lead', () => !a.worker.status().isLeading, LEASE_MS);
    expect(told(b, 'lost', deniedMs)).toBe(0);
    await fleet!.until('both work', () => isAtWork('a') && isAtWork('b'), 2 * LEASE_MS + SLACK_MS);
    expect(await fleet!.verify()).toEqual([]);
  });
});
