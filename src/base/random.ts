/** Randomness as a port, so that a whole fleet replays from one seed. */
import { randomBytes } from 'node:crypto';

/** A source of uniform numbers in [0, 1). */
export interface Random {
  next(): number;
}

/** Randomness of the operating system: for nonces and jitter in production. */
export function systemRandom(): Random {
  return { next: () => randomBytes(4).readUInt32LE() / 0x100000000 };
}

/**
 * A reproducible stream: the same seed gives the same numbers on every host and build.
 *
 * Source: SplitMix32, a 32-bit variant of Steele, Lea and Flood's SplitMix (2014).
 */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return {
    next() {
      state = (state + 0x9e3779b9) >>> 0;
      let z = state;
      z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      return ((z ^ (z >>> 15)) >>> 0) / 0x100000000;
    },
  };
}

/** A whole number in [0, below). */
export function randomInteger(random: Random, below: number): number {
  return Math.floor(random.next() * below);
}
