/** Where etcd is, and how workers prove who they are, changes while they run. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { ids } from '../../support/fleet.ts';
import { createCertificates } from '../support/server/certificates.ts';
import { EtcdFleet, type FleetSetup, seconds, startFleet } from '../support/fleet.ts';
import { Gateway } from '../support/server/gateway.ts';
import { HostName } from '../support/server/host-name.ts';
import { freePort, LOOPBACK } from '../support/server/ports.ts';
import { startProxy } from '../support/server/proxy.ts';
import { startEtcd } from '../support/server.ts';
import { machineMs } from '../support/time-line.ts';
import { patiently } from '../../support/patience.js';

let fleet: EtcdFleet | undefined;
let host: HostName | undefined;
afterEach(async () => {
  await fleet?.close();
  host?.stop();
  [fleet, host] = [undefined, undefined];
});

/** A node that starts again elects itself after one to two seconds: an outage that is shorter than this lease. */
const LEASE_MS = seconds(6);
const SPLITS = ids(4);
const SETUP = {
  splits: SPLITS,
  config: { leaseDurationMs: LEASE_MS, replanIntervalMs: LEASE_MS },
} satisfies Partial<FleetSetup>;
/** How soon workers are back once etcd can be reached. */
const RECONNECT_MS = patiently(10_000);

async function bothWork(): Promise<void> {
  await fleet!.until(
    'both work',
    () =>
      ['a', 'b'].every((id) => fleet!.leasesOf(id).length === 2) &&
      SPLITS.every((id) => fleet!.watermark(id) > 2),
  );
}

/** Waits until all go on above what was committed by now; says how long that took. */
async function goOn(): Promise<number> {
  const before = fleet!.watermarks(SPLITS);
  const startMs = machineMs();
  await fleet!.until('all go on', () => fleet!.areServed(SPLITS, before), RECONNECT_MS);
  return machineMs() - startMs;
}

/** Waits until each session was renewed within the last third of a lease. */
async function renewed(): Promise<void> {
  await fleet!.until('all renewed', () =>
    fleet!.workers.every(({ worker }) => worker.status().sessionLeftMs > (LEASE_MS * 2) / 3),
  );
}

function expectNothingLost(): void {
  expect(fleet!.timeLine.all({ what: 'lost' })).toEqual([]);
  expect(fleet!.timeLine.all({ what: 'sessionLost' })).toEqual([]);
  expect(leaders()).toHaveLength(1);
}

/** Waits until an outage that began then is longer than a lease, and everything was given up for it. */
async function outlast(sinceMs: number): Promise<void> {
  const { timeLine } = fleet!;
  await fleet!.until('all are lost', () => timeLine.all({ what: 'lost' }).length === SPLITS.length);
  await sleep(Math.max(0, sinceMs + LEASE_MS * 1.2 - machineMs()));
}

/** Each split was started again where its last commit before the outage had left it, under one leader. */
async function expectResumed(sinceMs: number): Promise<void> {
  const { timeLine } = fleet!;
  await fleet!.until('one leads', () => leaders().length === 1);
  for (const split of SPLITS) {
    const last = timeLine
      .all({ what: 'committed', split })
      .filter(({ atMs }) => atMs < sinceMs)
      .at(-1)!;
    const again = timeLine.first({ what: 'started', split, sinceMs })!;
    // A commit that was not answered may have landed.
    expect(again.watermark! - last.watermark!).toBeGreaterThanOrEqual(0);
    expect(again.watermark! - last.watermark!).toBeLessThanOrEqual(1);
  }
}

function leaders(): string[] {
  return fleet!.workers.filter(({ worker }) => worker.status().isLeading).map(({ id }) => id);
}

/** Two addresses of loopback, for one name. */
const [FORMER, LATER] = ['127.0.0.2', '127.0.0.3'];

/** Where etcd listens: for the harness, and for workers. */
function listeningAt(port: number, address: string): string[] {
  return ['--listen-client-urls', `http://${LOOPBACK}:${port},http://${address}`];
}

/** Accepts connections and never answers. */
async function silentServer(address: string, port: number): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined).unref();
  });
  server.unref().listen({ host: address, port });
  await once(server, 'listening');
  return server;
}

describe('endpoints', () => {
  test.each([
    ['shorter', false],
    ['longer', true],
  ])(
    'endpoint - moved with its data to another address behind its name, in an outage %s than a lease, it is found again',
    async (_, isLong) => {
      const [port, peerPort] = [await freePort(), await freePort()];
      const [firstPort, secondPort] = [await freePort(), await freePort()];
      const name = (host = new HostName('etcd', FORMER));
      const first = await startEtcd({
        port: firstPort,
        peerPort,
        extraArgs: listeningAt(firstPort, `${FORMER}:${port}`),
      });
      fleet = new EtcdFleet({
        ...SETUP,
        endpoints: [`http://${name.name}:${port}`],
        gateways: [first.gateway, new Gateway(`http://${LOOPBACK}:${secondPort}`)],
        end: () => first.stop(),
      });
      const { timeLine } = fleet;
      for (const id of ['a', 'b']) fleet.start(id);
      await bothWork();
      const killedMs = machineMs();
      await first.kill();
      name.resolveTo();
      if (isLong) await outlast(killedMs);
      const second = await startEtcd({
        port: secondPort,
        peerPort,
        dataDir: first.dataDir,
        extraArgs: listeningAt(secondPort, `${LATER}:${port}`),
      });
      name.resolveTo(LATER);
      expect(await goOn()).toBeLessThan(RECONNECT_MS);
      if (isLong) await expectResumed(killedMs);
      else expectNothingLost();
      expect(timeLine.overlaps()).toEqual([]);
      expect(await fleet.verify()).toEqual([]);
      await Promise.all(fleet.workers.map(({ worker }) => worker.stop()));
      await second.stop();
    },
  );

  test.each([
    ['refuses connections', () => Promise.resolve(null)],
    ['accepts connections and says nothing', silentServer],
  ])(
    'endpoint - of the addresses of a name of which the first one %s, another one serves',
    async (_, occupy) => {
      const [port, ownPort] = [await freePort(), await freePort()];
      const dead = await occupy(FORMER, port);
      const name = (host = new HostName('etcd', FORMER, LATER));
      const server = await startEtcd({
        port: ownPort,
        extraArgs: listeningAt(ownPort, `${LATER}:${port}`),
      });
      fleet = new EtcdFleet({
        ...SETUP,
        endpoints: [`http://${name.name}:${port}`],
        gateways: [server.gateway],
        end: async () => {
          dead?.close();
          await server.stop();
        },
      });
      for (const id of ['a', 'b']) fleet.start(id);
      await bothWork();
      await fleet.stays('nothing is lost', () => leaders().length === 1, LEASE_MS);
      expectNothingLost();
      expect(await fleet.verify()).toEqual([]);
    },
  );

  test('endpoint - of two endpoints of which one is dead, the other one serves, whichever it is', async () => {
    const started = await startFleet(SETUP);
    fleet = started.fleet;
    const first = await startProxy(started.server.endpoint);
    const second = await startProxy(started.server.endpoint);
    first.cut();
    const endpoints = [first.endpoint, second.endpoint];
    for (const id of ['a', 'b']) fleet.start(id, { store: { endpoints } });
    await bothWork();
    // Now the other way round, and silently.
    await first.heal();
    for (const [dead, live] of [
      [second, first],
      [first, second],
    ] as const) {
      await live.heal();
      await renewed();
      dead.blackHole();
      expect(await goOn()).toBeLessThan(LEASE_MS / 2);
    }
    expectNothingLost();
    expect(await fleet.verify()).toEqual([]);
  });
});

describe('certificates', () => {
  test.each([
    ['shorter', false],
    ['longer', true],
  ])(
    'certificate - one that has run out since is used no more once its files were replaced, after an outage %s than a lease',
    async (_, isLong) => {
      const authority = await createCertificates();
      const server = await startEtcd({
        tls: await authority.tls({ requireClientCertificate: true }),
      });
      fleet = new EtcdFleet({
        ...SETUP,
        endpoints: [server.endpoint],
        gateways: [server.gateway],
        end: async () => {
          await server.stop();
          await authority.stop();
        },
      });
      const validForSeconds = patiently(8);
      const issuedMs = machineMs();
      const certificate = await authority.client('worker', validForSeconds);
      const { certFile, keyFile } = certificate;
      const tls = { caFile: authority.caFile, certFile, keyFile };
      for (const id of ['a', 'b']) fleet.start(id, { store: { tls } });
      await bothWork();
      await certificate.renew();
      // What is open stays open, but nobody connects with the old one any more.
      await sleep(issuedMs + (validForSeconds + 1) * 1_000 - machineMs());
      await renewed();
      const killedMs = machineMs();
      await server.kill();
      if (isLong) await outlast(killedMs);
      await server.restart();
      expect(await goOn()).toBeLessThan(RECONNECT_MS);
      if (isLong) await expectResumed(killedMs);
      else expectNothingLost();
      expect(await fleet.verify()).toEqual([]);
    },
  );
});
