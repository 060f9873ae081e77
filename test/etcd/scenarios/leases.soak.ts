/** What hangs on leases in etcd, and what happens when they end. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { isEphemeralKey } from '../../../src/records/keys.ts';
import { ids } from '../../support/fleet.ts';
import { CONFIG, type EtcdFleet, LEASE_MS, seconds, startFleet } from '../support/fleet.ts';
import { metric } from '../support/server/metrics.ts';
import { startProxy } from '../support/server/proxy.ts';
import { machineMs } from '../support/time-line.ts';
import { patiently } from '../../support/patience.js';

let fleet: EtcdFleet | undefined;
afterEach(async () => {
  await fleet?.close();
  fleet = undefined;
});

/** A lease that is over is ended by etcd within its half second, and heard of a little later. */
const EXPIRY_MS = patiently(2_000);
/** Each at most a third of a lease after the one before. */
const RENEWALS = 100;
/** Ten workers share one event loop here. */
const IDLE_LEASE_MS = seconds(4);

describe('ephemeral keys', () => {
  test('ephemeral keys - each hangs on a lease, and of a killed process none remains after it', async () => {
    const splits = ids(6);
    const started = await startFleet({ splits, config: { maxInFlight: 6 } });
    fleet = started.fleet;
    const { gateway } = started.server;
    const { keys } = fleet;
    const lead = fleet.child('lead');
    await fleet.until('one leads', () => fleet!.leader() === 'lead');
    const follower = fleet.child('follower');
    fleet.start('survivor');
    await fleet.until('all hold their part', () =>
      ['lead', 'follower', 'survivor'].every((id) => fleet!.leasesOf(id).length === 2),
    );
    for (const victim of [follower, lead]) {
      const stored = await gateway.list(keys.root);
      const ephemeral = stored.filter(({ key }) => isEphemeralKey(keys, key));
      expect(ephemeral.length).toBeGreaterThanOrEqual(splits.length + 2);
      expect(ephemeral.filter(({ lease }) => lease === 0n)).toEqual([]);
      expect(stored.filter(({ key, lease }) => !isEphemeralKey(keys, key) && lease !== 0n)).toEqual(
        [],
      );
      const victims = new Set(
        ephemeral
          .filter(
            ({ value }) =>
              (JSON.parse(value) as { by: { instance: string } }).by.instance === victim.id,
          )
          .map(({ createRevision }) => createRevision),
      );
      expect(victims.size).toBeGreaterThan(0);
      await victim.kill();
      const killedMs = machineMs();
      const remain = async (): Promise<boolean> =>
        (await gateway.list(keys.root)).some(
          ({ key, createRevision }) => isEphemeralKey(keys, key) && victims.has(createRevision),
        );
      while (await remain()) expect(machineMs() - killedMs).toBeLessThan(LEASE_MS + EXPIRY_MS);
      const survivors = victim === follower ? ['lead', 'survivor'] : ['survivor'];
      await fleet.until(
        'the others hold all',
        () => survivors.flatMap((id) => fleet!.leasesOf(id)).length === splits.length,
        CONFIG.rebalanceDelayMs! + LEASE_MS,
      );
    }
    expect(fleet.timeLine.overlaps()).toEqual([]);
    expect(await fleet.verify()).toEqual([]);
  });
});

describe('heartbeats', () => {
  test('heartbeats - a hundred renewals of each of ten workers that hold forty splits write nothing', async () => {
    const names = ids(10, 'worker-');
    const started = await startFleet({
      splits: ids(40),
      work: { stepMs: 600_000 },
      config: { leaseDurationMs: IDLE_LEASE_MS, replanIntervalMs: IDLE_LEASE_MS },
    });
    fleet = started.fleet;
    const { gateway, endpoint } = started.server;
    // One after the other: ten at once are a lot for one busy event loop.
    for (const id of names) {
      const { worker } = fleet.start(id);
      await fleet.until('it is there', () => worker.status().presence === 'present');
    }
    await fleet.until(
      'each holds its part',
      () => names.every((id) => fleet!.leasesOf(id).length === 4),
      patiently(60_000),
    );
    // What was decided last may still be on its way.
    await sleep(IDLE_LEASE_MS);
    const { revision } = await gateway.position();
    const size = await metric(endpoint, 'etcd_mvcc_db_total_size_in_bytes');
    const startMs = machineMs();
    // One session of each worker, and one of the leader.
    const enough = (await renewalsOf(endpoint)) + RENEWALS * (names.length + 1);
    while ((await renewalsOf(endpoint)) < enough) {
      expect(machineMs() - startMs).toBeLessThan(1.1 * RENEWALS * (IDLE_LEASE_MS / 3));
      await sleep(1_000);
    }
    expect((await gateway.position()).revision).toBe(revision);
    expect(await metric(endpoint, 'etcd_mvcc_db_total_size_in_bytes')).toBe(size);
    expect(fleet.timeLine.all({ what: 'lost' })).toEqual([]);
    expect(names.map((id) => fleet!.leasesOf(id).length)).toEqual(names.map(() => 4));
    expect(await fleet.verify()).toEqual([]);
  }, 240_000);
});

/** Messages that keep leases alive, as the server counts them. */
function renewalsOf(endpoint: string): Promise<number> {
  return metric(endpoint, 'grpc_server_msg_received_total', ['"LeaseKeepAlive"']);
}

describe('candidates', () => {
  test('candidate - one whose leases were revoked while it waited leads under a live lease of its own when the leader dies', async () => {
    const started = await startFleet({ splits: ids(2) });
    fleet = started.fleet;
    const { gateway } = started.server;
    const a = fleet.child('a');
    await fleet.until('a leads', () => fleet!.leader() === 'a');
    const b = fleet.start('b');
    await fleet.until('b is there', () => fleet!.leasesOf('b').length === 1);
    // Everything that b has on the server, whatever it is for.
    const ofA = new Set(
      (await gateway.list(fleet.keys.root))
        .filter(({ value, lease }) => lease !== 0n && value.includes('"instance":"a"'))
        .map(({ lease }) => lease),
    );
    const { leases } = (await gateway.call('lease/leases', {})) as { leases: { ID: string }[] };
    const ofB = leases.map(({ ID }) => BigInt(ID)).filter((lease) => !ofA.has(lease));
    expect(ofB.length).toBeGreaterThan(0);
    await Promise.all(ofB.map((lease) => gateway.revoke(lease)));
    await fleet.until('b is served again', () => fleet!.leasesOf('b').length === 1);
    expect(b.worker.status().isLeading).toBe(false);
    await a.kill();
    // That nobody leads may last but for a moment.
    const isOver = (): boolean => fleet!.leader() !== 'a';
    await fleet.until('a leads no more', isOver, LEASE_MS + EXPIRY_MS);
    const vacantMs = machineMs();
    await fleet.until('b leads', () => b.worker.status().isLeading, LEASE_MS);
    // The key was there before the worker said so, and hangs on a lease that lives.
    expect(fleet.leader()).toBe('b');
    const { session } = fleet.entry(fleet.keys.leader)!;
    const left = await gateway.call('lease/timetolive', { ID: session! });
    expect(Number(left.TTL)).toBeGreaterThan(0);
    expect(machineMs() - vacantMs).toBeLessThan(LEASE_MS);
    await fleet.until('b holds all', () => fleet!.leasesOf('b').length === 2);
    expect(await fleet.verify()).toEqual([]);
  });

  test('candidate - cut off for two leases, it does not lead by what it knew before', async () => {
    const started = await startFleet({ splits: ids(2) });
    fleet = started.fleet;
    const { server } = started;
    const proxy = await startProxy(server.endpoint);
    const a = fleet.child('a');
    await fleet.until('a leads', () => fleet!.leader() === 'a');
    const b = fleet.start('b', { store: { endpoints: [proxy.endpoint] } });
    await fleet.until('b is there', () => fleet!.leasesOf('b').length === 1);
    proxy.blackHole();
    const cutMs = machineMs();
    await fleet.until(
      'b is gone',
      () => fleet!.entry(fleet!.keys.presence('b' as never)) === undefined,
    );
    await a.kill();
    await fleet.stays(
      'b does not lead',
      () => !b.worker.status().isLeading,
      cutMs + 2 * LEASE_MS - machineMs(),
    );
    await proxy.heal();
    await fleet.until('b leads', () => b.worker.status().isLeading, 2 * LEASE_MS + EXPIRY_MS);
    expect(fleet.leader()).toBe('b');
    await fleet.until('b holds all', () => fleet!.leasesOf('b').length === 2);
    expect(await fleet.verify()).toEqual([]);
  });
});
