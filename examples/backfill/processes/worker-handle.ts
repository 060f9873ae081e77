/** A worker process, as the process that started it sees it. */
import type { ChildProcess } from 'node:child_process';
import type { WorkerReport } from '../job.ts';
import type { Guard } from './guard.ts';
import type { Released } from './held-writes.ts';
import type { FromWorker, ToWorker, WorkerSetup } from './messages.ts';

export interface WorkerListener {
  readonly said: (worker: WorkerHandle, message: FromWorker) => void;
  /** It has ended, and neither was it killed nor has it said that its work is done. */
  readonly died: (worker: WorkerHandle, how: string) => void;
}

export class WorkerHandle {
  readonly report: WorkerReport;
  /** Commits that it holds back. */
  heldCommits = 0;
  /** What became of them; null until then. */
  released: Released | null = null;
  /** The verdict it has heard. */
  verdict: 'complete' | 'stalled' | null = null;
  /** Resolves when the process is gone, and all it has said is heard. */
  readonly gone: Promise<void>;
  readonly #process: ChildProcess;
  #isKilled = false;

  constructor(guard: Guard, setup: WorkerSetup, report: WorkerReport, listener: WorkerListener) {
    this.report = report;
    const file = new URL(import.meta.resolve('./worker-process.ts'));
    this.#process = guard.fork(file, [JSON.stringify(setup)]);
    this.#process.on('message', (message) => {
      this.#hear(message as FromWorker);
      listener.said(this, message as FromWorker);
    });
    // A message to a process that is just dying is lost, and that is all.
    this.#process.on('error', () => undefined);
    const exit = new Promise<string>((resolve) => {
      this.#process.once('exit', (code, signal) => {
        resolve(signal ?? `code ${code}`);
      });
      if (this.#process.pid === undefined) resolve('could not be started');
    });
    // The exit may be seen before the last messages.
    const disconnect = new Promise<void>((resolve) => {
      this.#process.once('disconnect', resolve);
      if (this.#process.pid === undefined) resolve();
    });
    this.gone = Promise.all([exit, disconnect]).then(([how]) => {
      if (this.#isKilled || (this.verdict !== null && how === 'code 0')) return;
      listener.died(this, how);
    });
  }

  get instanceId(): string {
    return this.report.instanceId;
  }

  /** Whether it is there to work, be it stopped. */
  get isAlive(): boolean {
    return !this.#isKilled;
  }

  say(message: ToWorker): void {
    if (this.#process.connected) this.#process.send(message);
  }

  /** SIGKILL: it ends without a goodbye, also when it is stopped. */
  kill(): void {
    this.#isKilled = true;
    this.#process.kill('SIGKILL');
  }

  /** SIGSTOP: it does nothing any more, and does not know. */
  stop(): void {
    this.#process.kill('SIGSTOP');
  }

  /** SIGCONT: it goes on where it was, as if no time had passed. */
  continue(): void {
    this.#process.kill('SIGCONT');
  }

  #hear(message: FromWorker): void {
    if (message.type === 'held') this.heldCommits = message.commits;
    else if (message.type === 'released') this.released = message;
    else if (message.type === 'ended') this.verdict = message.verdict;
  }
}
