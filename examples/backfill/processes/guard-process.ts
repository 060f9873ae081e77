/**
 * Sees to it that nothing is left behind, however the program ends: it waits for its standard input to close, which the
 * kernel does even for a process that was killed, and then ends the processes and removes the directories it was told of.
 *
 * A process of its own, because a killed process cleans up nothing, and a stopped one does not notice.
 */
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ToGuard } from './guard.ts';

/** How long a killed process may take to be gone before its directory is removed regardless. */
const PATIENCE_MS = 2_000;
const POLL_MS = 20;

const pids = new Set<number>();
const directories: string[] = [];

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

// Whoever interrupts the program means the program: this one ends after it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line) as ToGuard;
  if ('directory' in order) directories.push(order.directory);
  else if (order.isRunning) pids.add(order.pid);
  else pids.delete(order.pid);
}
for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
for (let waitedMs = 0; waitedMs < PATIENCE_MS; waitedMs += POLL_MS) {
  if (![...pids].some(isAlive)) break;
  await sleep(POLL_MS);
}
for (const directory of directories) {
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
}
