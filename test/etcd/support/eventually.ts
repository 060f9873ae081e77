import { setTimeout as sleep } from 'node:timers/promises';

/** Waits until something holds, in real time. */
export async function until(condition: () => boolean, withinMs = 8_000): Promise<void> {
  const endMs = performance.now() + withinMs;
  while (!condition() && performance.now() < endMs) await sleep(5);
  if (!condition()) throw new Error(`never became true: ${String(condition)}`);
}
