/** Starts processes and makes directories that are gone when this program is, however it ends. */
import { type ChildProcess, fork, type ForkOptions, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** What the guard process is told, a line of JSON each. */
export type ToGuard =
  { readonly pid: number; readonly isRunning: boolean } | { readonly directory: string };

/** How a TypeScript file is run as a process; by file name, so that it works from any directory. */
const EXEC_ARGV = ['--import', import.meta.resolve('tsx')];
/** In a session of its own a process does not hear the Ctrl-C that is meant for this one. */
const APART = { detached: true } as const;

export class Guard {
  readonly #process: ChildProcess;
  readonly #running = new Set<ChildProcess>();

  constructor() {
    const file = fileURLToPath(import.meta.resolve('./guard-process.ts'));
    this.#process = spawn(process.execPath, [...EXEC_ARGV, file], {
      ...APART,
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    // It cannot be told any more when it is gone; `close` says so.
    this.#process.stdin!.on('error', () => undefined);
  }

  /** A fresh directory. */
  directory(name: string): string {
    const directory = mkdtempSync(path.join(tmpdir(), `${name}-`));
    this.#tell({ directory });
    return directory;
  }

  /** Runs a TypeScript file, with a channel for messages. */
  fork(file: URL, args: readonly string[]): ChildProcess {
    const options: ForkOptions & typeof APART = {
      ...APART,
      execArgv: EXEC_ARGV,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    };
    return this.#watch(fork(file, args, options));
  }

  /** Runs a program; what it prints goes to an open file. */
  spawn(program: string, args: readonly string[], output: number): ChildProcess {
    return this.#watch(spawn(program, args, { ...APART, stdio: ['ignore', output, output] }));
  }

  /** Ends all processes and removes all directories. */
  async close(): Promise<void> {
    const gone = [...this.#running].map(exitOf);
    if (this.#process.exitCode === null) {
      const ended = exitOf(this.#process);
      this.#process.stdin!.end();
      await ended;
    }
    await Promise.all(gone);
  }

  #watch(child: ChildProcess): ChildProcess {
    const { pid } = child;
    // Could not be started: its `error` event says so.
    if (pid === undefined) return child;
    this.#running.add(child);
    this.#tell({ pid, isRunning: true });
    child.once('exit', () => {
      this.#running.delete(child);
      this.#tell({ pid, isRunning: false });
    });
    return child;
  }

  #tell(order: ToGuard): void {
    this.#process.stdin!.write(`${JSON.stringify(order)}\n`);
  }
}

function exitOf(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => {
      resolve();
    });
  });
}
