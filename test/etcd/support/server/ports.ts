/** Free ports of the loopback interface. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

export const LOOPBACK = '127.0.0.1';

const LOWEST = 12_000;

/** Ports handed out in this process, so that no two callers get the same one before they listen. */
const handedOut = new Set<number>();

/**
 * A port that nothing listens on, below the range that outgoing connections take theirs from: a client that keeps
 * connecting to a port of that range while its server is down may connect to itself, and then the server cannot come back.
 */
export async function freePort(): Promise<number> {
  const highest = firstOutgoingPort() - 1;
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * (highest - LOWEST));
    if (handedOut.has(port)) continue;
    handedOut.add(port);
    if (await isFree(port)) return port;
  }
  throw new Error('no free loopback port found');
}

function firstOutgoingPort(): number {
  try {
    const first = Number(
      readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s/)[0],
    );
    if (first > LOWEST + 1_000) return first;
  } catch {
    // Not Linux: the usual range starts above this.
  }
  return 32_768;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ host: LOOPBACK, port, exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
