/** One etcd process on loopback: started, killed, paused and restarted by its id. */
import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { findEtcd, findEtcdctl } from './binary.ts';
import { atEnd } from './cleanup.ts';
import { Gateway } from './gateway.ts';
import type { ClientTls } from './gateway.ts';
import { patiently } from '../../../support/patience.js';

/** Kills the process and removes its directory when this process ends without having stopped it, however it ends. */
const WATCHDOG = 'read -r word; [ "$word" = stopped ] || { kill -9 "$1"; rm -rf "$2"; }';

const START_TIMEOUT_MS = 20_000;
const STOP_WITHIN_MS = 5_000;

/** What one process is started with; `flags` come after those that follow from the rest. */
export interface NodeConfig {
  readonly name: string;
  readonly port: number;
  readonly peerPort: number;
  /** All members as etcd takes them: `name=url,...`. */
  readonly initialCluster: string;
  readonly flags: readonly string[];
  readonly dataDir?: string | undefined;
  readonly tls?: ClientTls | undefined;
}

/** The process and its data; one object over all its restarts. */
export class NodeProcess {
  readonly name: string;
  readonly endpoint: string;
  readonly port: number;
  readonly dataDir: string;
  readonly gateway: Gateway;
  private readonly config: NodeConfig;
  private readonly home: string;
  private readonly forget: () => void;
  private child: ChildProcess | undefined;
  /** Settled when the last process and its watchdog are gone. */
  private gone: Promise<void> = Promise.resolve();
  private token = 'first';
  private isStopped = false;

  static async create(config: NodeConfig): Promise<NodeProcess> {
    return new NodeProcess(config, await mkdtemp(join(tmpdir(), 'leasehold-etcd-')));
  }

  private constructor(config: NodeConfig, home: string) {
    this.config = config;
    this.home = home;
    this.name = config.name;
    this.port = config.port;
    this.dataDir = config.dataDir ?? join(home, 'data');
    this.endpoint = `${config.tls === undefined ? 'http' : 'https'}://127.0.0.1:${config.port}`;
    this.gateway = new Gateway(this.endpoint, config.tls);
    this.forget = atEnd(() => this.stop());
  }

  /** The id of the process; throws when it does not run. */
  get pid(): number {
    if (this.child?.pid === undefined) throw new Error(`${this.name} does not run`);
    return this.child.pid;
  }

  get isRunning(): boolean {
    return this.child !== undefined;
  }

  /** Starts the process; it need not serve yet. */
  async launch(): Promise<void> {
    if (this.isStopped) throw new Error(`${this.name} was stopped for good`);
    if (this.child !== undefined) throw new Error(`${this.name} runs already`);
    const etcd = await findEtcd();
    const log = openSync(this.logPath, 'a');
    const child = spawn(etcd, this.args(), {
      stdio: ['ignore', log, log],
      cwd: this.home,
      // Its own group: an interrupt of the terminal is not for it, the watchdog ends it.
      detached: true,
      env: { PATH: process.env.PATH, ETCD_UNSUPPORTED_ARCH: unsupportedArchitecture() },
    });
    closeSync(log);
    this.child = child;
    await once(child, 'spawn');
    const watchdog = watch(child.pid!, this.home);
    this.gone = new Promise((resolve) => {
      child.once('exit', () => {
        this.child = undefined;
        // The id may soon be that of another process.
        watchdog.stdin?.end('stopped\n');
        watchdog.once('exit', () => {
          resolve();
        });
      });
    });
  }

  /** Waits until the process serves with a quorum. */
  async served(): Promise<void> {
    const deadline = performance.now() + patiently(START_TIMEOUT_MS);
    while (!(await this.isServing())) {
      if (this.child === undefined) throw new NotStarted(this.name, this.logTail());
      if (performance.now() > deadline) {
        throw new Error(`${this.name} does not serve:\n${this.logTail()}`);
      }
      await sleep(20);
    }
  }

  /** Ends the process and waits until it is gone; its data stays. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.child?.kill(signal);
    // A paused process would take any other signal only when it goes on.
    this.child?.kill('SIGCONT');
    await this.gone;
  }

  /** Stops the process where it is: connections stay open, nothing is answered. */
  pause(): void {
    const { pid } = this;
    process.kill(pid, 'SIGSTOP');
    // On a busy machine its threads run on for some milliseconds after the signal was sent.
    const deadline = performance.now() + patiently(STOP_WITHIN_MS);
    while (!isStopped(pid)) {
      if (performance.now() > deadline) throw new Error(`${this.name} does not stop`);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }

  resume(): void {
    process.kill(this.pid, 'SIGCONT');
  }

  /** Kills the process if it runs and starts it again on its port and data. */
  async restart(): Promise<void> {
    await this.kill();
    await this.launch();
    await this.served();
  }

  /** Starts again with no data, as another cluster on the same port. */
  async restartEmpty(): Promise<void> {
    await this.kill();
    await rm(this.dataDir, { recursive: true, force: true });
    // The cluster's id follows from its addresses and this token.
    this.token = `${this.token}-again`;
    await this.launch();
    await this.served();
  }

  /** Copies the data, for `restartFrom`. The process is killed and restarted for it. */
  async snapshot(): Promise<string> {
    await this.kill();
    const copy = await mkdtemp(join(this.home, 'snapshot-'));
    await cp(this.dataDir, copy, { recursive: true });
    await this.launch();
    await this.served();
    return copy;
  }

  /** Starts again with the data of a snapshot: what was written since is undone, the cluster's id stays. */
  async restartFrom(snapshot: string): Promise<void> {
    await this.kill();
    await rm(this.dataDir, { recursive: true, force: true });
    await cp(snapshot, this.dataDir, { recursive: true });
    await this.launch();
    await this.served();
  }

  /** What `etcdctl snapshot save` writes, without a stop. */
  async saveSnapshot(): Promise<string> {
    const file = join(await mkdtemp(join(this.home, 'saved-')), 'snapshot.db');
    await this.etcdctl('snapshot', 'save', file, '--endpoints', this.endpoint);
    return file;
  }

  /** Starts again with what `etcdctl snapshot restore` makes of a saved snapshot: a cluster that goes on from there. */
  async restoreSnapshot(file: string): Promise<void> {
    await this.kill();
    await rm(this.dataDir, { recursive: true, force: true });
    await this.etcdctl(
      ...['snapshot', 'restore', file, '--data-dir', this.dataDir, ...this.membership()],
    );
    await this.launch();
    await this.served();
  }

  /** Ends the process for good and removes everything it left. */
  async stop(): Promise<void> {
    this.isStopped = true;
    await this.kill();
    await rm(this.home, { recursive: true, force: true });
    this.forget();
  }

  /** The end of what the process has logged, for failure messages. */
  logTail(lines = 20): string {
    return readFileSync(this.logPath, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  }

  /** Whether this very process serves: another one may have taken the port. */
  private async isServing(): Promise<boolean> {
    if (!(await this.gateway.isHealthy())) return false;
    return (await this.gateway.peerUrl()) === this.peerUrl;
  }

  private get peerUrl(): string {
    return `http://127.0.0.1:${this.config.peerPort}`;
  }

  private get logPath(): string {
    return join(this.home, 'etcd.log');
  }

  private args(): string[] {
    return [
      ...['--data-dir', this.dataDir, '--listen-peer-urls', this.peerUrl],
      ...['--listen-client-urls', this.endpoint, '--advertise-client-urls', this.endpoint],
      ...this.membership(),
      ...this.config.flags,
    ];
  }

  private membership(): string[] {
    const { initialCluster } = this.config;
    return [
      ...['--name', this.name, '--initial-advertise-peer-urls', this.peerUrl],
      ...['--initial-cluster', initialCluster, '--initial-cluster-token', this.token],
    ];
  }

  private async etcdctl(...args: readonly string[]): Promise<void> {
    const env = { PATH: process.env.PATH, ETCDCTL_API: '3' };
    await promisify(execFile)(await findEtcdctl(), args, { cwd: this.home, env });
  }
}

/** etcd ended before it served. */
export class NotStarted extends Error {
  readonly isPortTaken: boolean;

  constructor(name: string, log: string) {
    super(`${name} ended before it served:\n${log}`);
    this.isPortTaken = log.includes('address already in use');
  }
}

function watch(pid: number, home: string): ChildProcess {
  const watchdog = spawn('sh', ['-c', WATCHDOG, 'sh', String(pid), home], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  // It may end first when the machine goes down.
  watchdog.stdin?.on('error', () => undefined);
  return watchdog;
}

/** Whether every thread of a process stands still; taken for true where it cannot be seen. */
function isStopped(pid: number): boolean {
  const tasks = `/proc/${pid}/task`;
  if (!existsSync(tasks)) return true;
  try {
    return readdirSync(tasks).every((task) => {
      // The state follows the name, which may hold anything but ends with the last bracket.
      const stat = readFileSync(join(tasks, task, 'stat'), 'utf8');
      return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
    });
  } catch {
    // A thread that was listed has ended: it was running.
    return false;
  }
}

/** etcd refuses to start on other processors than these unless told their name. */
function unsupportedArchitecture(): string | undefined {
  return process.arch === 'x64' ? undefined : process.arch;
}
