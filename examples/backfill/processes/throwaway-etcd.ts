/** Starts an etcd of its own: one node on free loopback ports, with its data in a temporary directory. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Guard } from './guard.ts';
import { JobFailedError } from './job-failed-error.ts';

const READY_WITHIN_MS = 20_000;
const POLL_MS = 50;
/** A port found free may be taken the next moment. */
const TRIES = 3;
const LOG_LINES_SHOWN = 5;

export interface ThrowawayEtcd {
  readonly endpoint: string;
  /** Its process, which the guard ends. */
  readonly process: ChildProcess;
}

/** @throws JobFailedError when there is no etcd, or it does not start; the message says what to do. */
export async function startEtcd(guard: Guard): Promise<ThrowawayEtcd> {
  const directory = guard.directory('backfill-etcd');
  for (let tried = 1; ; tried += 1) {
    const [client, peer] = await freeUrls();
    const log = path.join(directory, `etcd-${tried}.log`);
    const etcd = await launch(guard, path.join(directory, `data-${tried}`), { client, peer, log });
    if (await isReady(etcd, client)) return { endpoint: client, process: etcd };
    const said = readFileSync(log, 'utf8').trimEnd().split('\n');
    if (tried < TRIES && said.some((line) => line.includes('address already in use'))) continue;
    throw new JobFailedError(
      ['etcd did not start; the end of its log:', ...said.slice(-LOG_LINES_SHOWN)].join('\n  '),
    );
  }
}

async function launch(
  guard: Guard,
  data: string,
  at: { readonly client: string; readonly peer: string; readonly log: string },
): Promise<ChildProcess> {
  const program = process.env.LEASEHOLD_ETCD ?? 'etcd';
  const output = openSync(at.log, 'w');
  try {
    const etcd = guard.spawn(
      program,
      [
        ...['--name', 'backfill', '--data-dir', data],
        ...['--listen-client-urls', at.client, '--advertise-client-urls', at.client],
        ...['--listen-peer-urls', at.peer, '--initial-advertise-peer-urls', at.peer],
        ...['--initial-cluster', `backfill=${at.peer}`],
      ],
      output,
    );
    await once(etcd, 'spawn');
    return etcd;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new JobFailedError(
      `cannot run ${program} (${code}): install it, on Debian with 'apt-get install etcd-server', ` +
        'or name it in LEASEHOLD_ETCD',
    );
  } finally {
    closeSync(output);
  }
}

/** False when it has ended instead. */
async function isReady(etcd: ChildProcess, client: string): Promise<boolean> {
  for (let waitedMs = 0; waitedMs < READY_WITHIN_MS; waitedMs += POLL_MS) {
    if (etcd.exitCode !== null || etcd.signalCode !== null) return false;
    try {
      const answer = await fetch(`${client}/health`, { signal: AbortSignal.timeout(1_000) });
      if (answer.ok) return true;
    } catch {
      // Not listening yet.
    }
    await sleep(POLL_MS);
  }
  return false;
}

async function freeUrls(): Promise<[string, string]> {
  const servers = [createServer(), createServer()];
  const ports = servers.map(async (server) => {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return (server.address() as AddressInfo).port;
  });
  const [client, peer] = await Promise.all(ports);
  for (const server of servers) server.close();
  return [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
}
