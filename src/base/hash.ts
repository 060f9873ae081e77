/** A hash that never changes between versions: it breaks ties that leaders of two versions must break alike. */

/**
 * 32-bit hash of a string under a seed. Not for secrets.
 *
 * Source: FNV-1a over UTF-16 code units, finished with MurmurHash3's avalanche step.
 */
export function hash32(seed: number, text: string): number {
  let hash = (seed ^ 0x811c9dc5) >>> 0;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
