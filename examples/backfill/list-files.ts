/**
 * Lists the regular files of a tree, in an order that depends on their names alone.
 *
 * Names are bytes: a file system promises no encoding. Symbolic links are not followed, so a tree always ends.
 */
import { isUtf8 } from 'node:buffer';
import { lstat, readdir } from 'node:fs/promises';

/** A regular file. */
export interface ListedFile {
  /** Relative to the root, parts joined by `/`. */
  readonly path: Buffer;
  readonly bytes: number;
}

/** A tree as it was when it was listed. */
export interface Listing {
  /** Ordered by the bytes of their paths. */
  readonly files: readonly ListedFile[];
  /** Symbolic links, sockets, pipes and devices that were left out. */
  readonly skipped: number;
}

/** A file or directory that cannot be read; the message names it. */
export class UnreadableError extends Error {
  constructor(path: Buffer, cause: unknown) {
    const code = (cause as NodeJS.ErrnoException).code ?? String(cause);
    super(`cannot read ${showPath(path)}: ${code}`, { cause });
    this.name = 'UnreadableError';
  }
}

/** Lists a tree. @throws UnreadableError for the first directory or file that cannot be looked at. */
export async function listFiles(root: Buffer): Promise<Listing> {
  const files: ListedFile[] = [];
  const directories: (Buffer | null)[] = [null];
  let skipped = 0;
  for (const directory of directories) {
    const at = directory === null ? root : inside(root, directory);
    const entries = await readDirectory(at);
    const found = entries.map(async (entry) => {
      const path = directory === null ? entry.name : inside(directory, entry.name);
      if (entry.isDirectory()) directories.push(path);
      else if (entry.isFile()) files.push({ path, bytes: await sizeOf(inside(root, path)) });
      else skipped += 1;
    });
    await Promise.all(found);
  }
  files.sort((a, b) => Buffer.compare(a.path, b.path));
  return { files, skipped };
}

/** A path inside a directory. */
export function inside(directory: Buffer, path: Uint8Array): Buffer {
  return Buffer.concat([directory, Buffer.from('/'), path]);
}

/** A path for people: odd characters are escaped, so that it stays on one line. */
export function showPath(path: Buffer): string {
  if (!isUtf8(path)) return JSON.stringify(path.toString('latin1')).concat(' (not UTF-8)');
  const text = path.toString();
  return /[\p{C}"\\]/u.test(text) ? JSON.stringify(text) : text;
}

async function readDirectory(path: Buffer) {
  try {
    return await readdir(path, { withFileTypes: true, encoding: 'buffer' });
  } catch (error) {
    throw new UnreadableError(path, error);
  }
}

async function sizeOf(path: Buffer): Promise<number> {
  try {
    return (await lstat(path)).size;
  } catch (error) {
    throw new UnreadableError(path, error);
  }
}
