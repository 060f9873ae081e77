/** A real etcd of one node, for tests: on free loopback ports, in a temporary directory, ended with the test file. */
import type { Gateway } from './server/gateway.ts';
import { encode, endOfPrefix } from './server/gateway.ts';
import { NodeProcess, NotStarted } from './server/node-process.ts';
import { freePort } from './server/ports.ts';

/** A user that may read and write the keys of one prefix. */
export interface EtcdUser {
  readonly name: string;
  readonly password: string;
  readonly prefix: string;
}

/** Users and passwords; `root` may do everything. */
export interface EtcdAuth {
  readonly rootPassword: string;
  readonly users?: readonly EtcdUser[];
  /** How long a token lives, in seconds; etcd's default is 300. */
  readonly tokenTtlSeconds?: number;
}

/** The files of a server that speaks TLS, and what the harness itself needs to talk to it. */
export interface EtcdTls {
  readonly serverCertFile: string;
  readonly serverKeyFile: string;
  readonly caFile: string;
  /** Refuses clients without a certificate of the authority; its common name is then the user. */
  readonly requireClientCertificate?: boolean;
  /** As PEM. */
  readonly ca: string;
  readonly clientCert: string;
  readonly clientKey: string;
}

export interface EtcdOptions {
  /** Default: in a temporary directory. It stays when the server is stopped. */
  readonly dataDir?: string;
  /** Default: a free one. */
  readonly port?: number;
  /** Data belongs to a peer port: whoever moves it to another client port keeps this one. Default: a free one. */
  readonly peerPort?: number;
  readonly quotaBytes?: number;
  readonly extraArgs?: readonly string[];
  /** Default true: writes need not reach the disk, which survives the death of the process. */
  readonly unsafeNoFsync?: boolean;
  readonly tls?: EtcdTls;
  readonly auth?: EtcdAuth;
}

export interface EtcdServer {
  /** `http://127.0.0.1:PORT`, or `https://` with TLS. */
  readonly endpoint: string;
  readonly port: number;
  /** Of the present process; throws while none runs. */
  readonly pid: number;
  readonly isRunning: boolean;
  readonly dataDir: string;
  /** A client on connections of its own; logged in as root where the server has users. */
  readonly gateway: Gateway;
  /** Ends the process, by default at once, and waits until it is gone; data and port stay. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** Stops the process where it is (SIGSTOP): connections stay open, nothing is answered. */
  pause(): void;
  resume(): void;
  /** Kills the process if it runs, and starts it again on the same port and data. */
  restart(): Promise<void>;
  /** The same port, no data, another cluster id. */
  restartEmpty(): Promise<void>;
  /** Copies the data; the process is killed and restarted for it. */
  snapshot(): Promise<string>;
  /** Starts again with the data of a snapshot: later writes are undone, the cluster id is the same. */
  restartFrom(snapshot: string): Promise<void>;
  /** What `etcdctl snapshot save` writes; the process runs on. */
  saveSnapshot(): Promise<string>;
  /** Starts again with what `etcdctl snapshot restore` makes of it. */
  restoreSnapshot(file: string): Promise<void>;
  /** Ends the process for good and removes its temporary files. */
  stop(): Promise<void>;
  /** The end of its log. */
  logTail(lines?: number): string;
}

const START_ATTEMPTS = 5;

/** What every server of the tests is started with: leases of 2 seconds are granted, the least that etcd knows. */
export function commonFlags(options: EtcdOptions): string[] {
  const flags = ['--heartbeat-interval', '100', '--election-timeout', '1000'];
  if (options.unsafeNoFsync !== false) flags.push('--unsafe-no-fsync');
  if (options.quotaBytes !== undefined) {
    flags.push('--quota-backend-bytes', String(options.quotaBytes));
  }
  const { tls, auth } = options;
  if (tls !== undefined) {
    flags.push('--cert-file', tls.serverCertFile, '--key-file', tls.serverKeyFile);
    // An authority alone would make etcd want certificates of its clients, too.
    if (tls.requireClientCertificate === true) {
      flags.push('--client-cert-auth', '--trusted-ca-file', tls.caFile);
    }
  }
  if (auth?.tokenTtlSeconds !== undefined) {
    flags.push('--auth-token-ttl', String(auth.tokenTtlSeconds));
  }
  return [...flags, ...(options.extraArgs ?? [])];
}

/** Starts etcd and waits until it serves. */
export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdServer> {
  for (let attempt = 1; ; attempt += 1) {
    const server = await create(options);
    try {
      await server.launch();
      await server.served();
      if (options.auth !== undefined) await enableAuth(server.gateway, options.auth);
      return server;
    } catch (error) {
      await server.stop();
      const isRace = error instanceof NotStarted && error.isPortTaken && options.port === undefined;
      if (!isRace || attempt === START_ATTEMPTS) throw error;
    }
  }
}

async function create(options: EtcdOptions): Promise<NodeProcess> {
  const port = options.port ?? (await freePort());
  const peerPort = options.peerPort ?? (await freePort());
  const { tls } = options;
  return NodeProcess.create({
    name: 'etcd',
    port,
    peerPort,
    initialCluster: `etcd=http://127.0.0.1:${peerPort}`,
    flags: commonFlags(options),
    dataDir: options.dataDir,
    tls: tls && { ca: tls.ca, cert: tls.clientCert, key: tls.clientKey },
  });
}

async function enableAuth(gateway: Gateway, auth: EtcdAuth): Promise<void> {
  await gateway.call('auth/user/add', { name: 'root', password: auth.rootPassword });
  await gateway.call('auth/role/add', { name: 'root' });
  await gateway.call('auth/user/grant', { user: 'root', role: 'root' });
  for (const { name, password, prefix } of auth.users ?? []) {
    await gateway.call('auth/user/add', { name, password });
    await gateway.call('auth/role/add', { name: `${name}-keys` });
    await gateway.call('auth/role/grant', {
      name: `${name}-keys`,
      perm: { permType: 'READWRITE', key: encode(prefix), range_end: endOfPrefix(prefix) },
    });
    await gateway.call('auth/user/grant', { user: name, role: `${name}-keys` });
  }
  await gateway.call('auth/enable', {});
  await gateway.logIn('root', auth.rootPassword);
}
