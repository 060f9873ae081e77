/** A real etcd cluster on loopback, for tests. */
import { setTimeout as sleep } from 'node:timers/promises';
import { NodeProcess, NotStarted } from './node-process.ts';
import { freePort } from './ports.ts';
import type { Gateway, Status } from './gateway.ts';
import { commonFlags } from '../server.ts';
import type { EtcdOptions, EtcdServer } from '../server.ts';
import { patiently } from '../../../support/patience.js';

/** One member; `restart` waits until the cluster has a quorum again. */
export type EtcdMember = Pick<
  EtcdServer,
  | 'endpoint'
  | 'port'
  | 'pid'
  | 'isRunning'
  | 'dataDir'
  | 'gateway'
  | 'kill'
  | 'pause'
  | 'resume'
  | 'restart'
  | 'logTail'
> & { readonly name: string };

export interface EtcdCluster {
  readonly members: readonly EtcdMember[];
  readonly endpoints: readonly string[];
  readonly gateways: readonly Gateway[];
  /** The member that a majority, itself included, takes for the leader; waits for one. */
  leader(timeoutMs?: number): Promise<EtcdMember>;
  /** The members that do not lead. */
  followers(): Promise<EtcdMember[]>;
  /** Starts what does not run and waits until all serve. */
  restartAll(): Promise<void>;
  stop(): Promise<void>;
}

export interface ClusterOptions extends Pick<
  EtcdOptions,
  'quotaBytes' | 'extraArgs' | 'unsafeNoFsync'
> {
  /** 3 when absent. */
  readonly size?: number;
}

const START_ATTEMPTS = 5;
const STATUS_TIMEOUT_MS = 500;

export async function startCluster(options: ClusterOptions = {}): Promise<EtcdCluster> {
  for (let attempt = 1; ; attempt += 1) {
    const cluster = new LoopbackCluster(await createMembers(options));
    try {
      await cluster.restartAll();
      await cluster.leader();
      return cluster;
    } catch (error) {
      await cluster.stop();
      const isRace = error instanceof NotStarted && error.isPortTaken;
      if (!isRace || attempt === START_ATTEMPTS) throw error;
    }
  }
}

async function createMembers(options: ClusterOptions): Promise<NodeProcess[]> {
  const places = [];
  for (let number = 1; number <= (options.size ?? 3); number += 1) {
    places.push({
      name: `member-${number}`,
      port: await freePort(),
      peerPort: await freePort(),
    });
  }
  const initialCluster = places
    .map(({ name, peerPort }) => `${name}=http://127.0.0.1:${peerPort}`)
    .join(',');
  const flags = commonFlags(options);
  return Promise.all(
    places.map((place) => NodeProcess.create({ ...place, initialCluster, flags })),
  );
}

class LoopbackCluster implements EtcdCluster {
  readonly members: readonly NodeProcess[];

  constructor(members: readonly NodeProcess[]) {
    this.members = members;
  }

  get endpoints(): string[] {
    return this.members.map(({ endpoint }) => endpoint);
  }

  get gateways(): Gateway[] {
    return this.members.map(({ gateway }) => gateway);
  }

  async leader(timeoutMs = patiently(15_000)): Promise<NodeProcess> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const leader = this.#agreedOn(await this.#statuses());
      if (leader !== undefined) return leader;
      if (performance.now() > deadline) throw new Error(`no leader within ${timeoutMs} ms`);
      await sleep(50);
    }
  }

  async followers(): Promise<NodeProcess[]> {
    const leader = await this.leader();
    return this.members.filter((member) => member !== leader);
  }

  async restartAll(): Promise<void> {
    // All at once: none serves before a majority runs.
    await Promise.all(
      this.members.map(async (member) => {
        if (!member.isRunning) await member.launch();
      }),
    );
    await Promise.all(this.members.map((member) => member.served()));
  }

  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.stop()));
  }

  #statuses(): Promise<(Status | null)[]> {
    return Promise.all(
      this.members.map(({ gateway }) =>
        gateway.status(patiently(STATUS_TIMEOUT_MS)).catch(() => null),
      ),
    );
  }

  #agreedOn(statuses: readonly (Status | null)[]): NodeProcess | undefined {
    // By its own word, so that one that was stopped just now is not taken for the leader.
    const index = statuses.findIndex((status) => status !== null && leads(status));
    const leader = statuses[index];
    if (leader === undefined || leader === null) return undefined;
    const voices = statuses.filter(
      (status) => status?.leaderId === leader.memberId && status.raftTerm === leader.raftTerm,
    );
    return voices.length * 2 > this.members.length ? this.members[index] : undefined;
  }
}

function leads(status: Status): boolean {
  return status.leaderId === status.memberId;
}
