/** Starts workers in processes of their own, for what cannot be done to a part of a process. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { ChildCommand } from './child-worker.ts';
import { atEnd } from './server/cleanup.ts';
import type { Moment, TimeLine } from './time-line.ts';
import { machineMs } from './time-line.ts';
import { patiently } from '../../support/patience.js';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** A worker in a process of its own. Every program that it may be understands `{ kind: 'stop' }`. */
export class ChildWorker<Command extends { readonly kind: string } = ChildCommand> {
  readonly id: string;
  readonly exited: Promise<unknown>;
  readonly #child: ChildProcess;
  readonly #timeLine: TimeLine;
  #stderr = '';

  /** @param script  The program; it gets `setup` as JSON. */
  constructor(setup: { readonly id: string }, timeLine: TimeLine, script: string) {
    this.id = setup.id;
    this.#timeLine = timeLine;
    const child = runScript(script, [JSON.stringify(setup)], 'ipc');
    this.#child = child;
    child.stderr?.on('data', (chunk: Buffer) => (this.#stderr += chunk.toString()));
    child.on('message', (moment: Moment) => {
      timeLine.moments.push(moment);
    });
    this.exited = once(child, 'exit').then(([code, signal]) => {
      const detail = `${String(code)} ${String(signal)} ${this.#stderr.slice(-2_000)}`;
      timeLine.moments.push({ atMs: machineMs(), worker: this.id, what: 'exited', detail });
    });
    const forget = atEnd(() => this.kill());
    void this.exited.then(forget);
  }

  get hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  tell(command: Command): void {
    this.#child.send(command);
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill(): Promise<void> {
    if (this.hasExited) return;
    this.#child.kill('SIGKILL');
    await this.exited;
    const what = { worker: this.id, what: 'killed' };
    this.#timeLine.moments.push({ atMs: machineMs(), ...what });
  }

  /** SIGSTOP: nothing of the process runs. */
  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  resume(): void {
    this.#child.kill('SIGCONT');
  }

  /** Lets the worker leave; kills the process when it does not end. */
  async stop(withinMs = patiently(5_000)): Promise<void> {
    if (this.hasExited) return;
    this.resume();
    // One that has come to its end by itself hangs up before it is gone.
    if (this.#child.connected) this.#child.send({ kind: 'stop' }, () => undefined);
    const timer = setTimeout(() => void this.kill(), withinMs);
    await this.exited;
    clearTimeout(timer);
  }
}

/** Runs a script of this directory in a Node process of its own. */
export function runScript(
  name: string,
  args: readonly string[],
  channel: 'ipc' | 'ignore',
): ChildProcess {
  const script = path.join(import.meta.dirname, name);
  return spawn(process.execPath, ['--import', 'tsx', script, ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe', channel],
  });
}
