/**
 * What is counted: files, bytes, lines, both by extension, and one digest over everything.
 *
 * A tally is small whatever it counts, so a commit can carry all of it: position and result are then one record, written
 * by one compare-and-swap, and a replay starts from both.
 */
import { createHash } from 'node:crypto';

/** What one file adds. */
export interface FileFacts {
  readonly bytes: number;
  /** Newlines, and one more if the last line does not end with one. An empty file has none. */
  readonly lines: number;
  /** SHA-256 of the content. */
  readonly hash: Buffer;
}

export interface Counts {
  files: number;
  bytes: number;
  lines: number;
}

const DIGEST_MODULUS = 1n << 256n;

export class Tally {
  readonly total: Counts = { files: 0, bytes: 0, lines: 0 };
  readonly byExtension = new Map<string, Counts>();
  /**
   * The sum, modulo 2^256, of SHA-256(path, NUL, content hash) over all files: the order does not matter, and a file that is
   * missing, counted twice, renamed or changed shows.
   */
  digest = 0n;

  add(path: Buffer, facts: FileFacts): void {
    const counts = { files: 1, bytes: facts.bytes, lines: facts.lines };
    this.#count(extensionOf(path), counts);
    const named = createHash('sha256').update(path).update('\0').update(facts.hash);
    this.#addDigest(BigInt(`0x${named.digest('hex')}`));
  }

  merge(other: Tally): void {
    for (const [extension, counts] of other.byExtension) this.#count(extension, counts);
    this.#addDigest(other.digest);
  }

  /** As the state of a commit. */
  encode(): string {
    const extensions = [...this.byExtension].map(([extension, counts]) => [
      extension,
      counts.files,
      counts.bytes,
      counts.lines,
    ]);
    return JSON.stringify({ digest: this.digest.toString(16), extensions });
  }

  static decode(state: Uint8Array | string): Tally {
    const { digest, extensions } = JSON.parse(Buffer.from(state).toString()) as {
      digest: string;
      extensions: [string, number, number, number][];
    };
    const tally = new Tally();
    tally.#addDigest(BigInt(`0x${digest}`));
    for (const [extension, files, bytes, lines] of extensions) {
      tally.#count(extension, { files, bytes, lines });
    }
    return tally;
  }

  #count(extension: string, { files, bytes, lines }: Counts): void {
    let counts = this.byExtension.get(extension);
    if (counts === undefined) {
      counts = { files: 0, bytes: 0, lines: 0 };
      this.byExtension.set(extension, counts);
    }
    for (const sum of [this.total, counts]) {
      sum.files += files;
      sum.bytes += bytes;
      sum.lines += lines;
    }
  }

  #addDigest(digest: bigint): void {
    this.digest = (this.digest + digest) % DIGEST_MODULUS;
  }
}

/** What follows the last dot of a file's name, in lower case; `none` without one, `other` when it is not a plain word. */
export function extensionOf(path: Buffer): string {
  const name = path.subarray(path.lastIndexOf('/') + 1).toString('latin1');
  const dot = name.lastIndexOf('.');
  if (dot <= 0) return 'none';
  const extension = name.slice(dot).toLowerCase();
  return /^\.[a-z0-9_-]{1,16}$/.test(extension) ? extension : 'other';
}
