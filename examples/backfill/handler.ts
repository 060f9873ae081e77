/**
 * Works on one split: what a service writes itself.
 *
 * Files are read in the order of the descriptor. The watermark of a commit is the number of files done, its state the tally
 * over exactly these files. Whoever gets the split next goes on from there.
 */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import type { Grant } from '../../src/index.ts';
import { inside, UnreadableError } from './list-files.ts';
import { pathsOf } from './plan.ts';
import { type FileFacts, Tally } from './tally.ts';

const FILES_PER_COMMIT = 16;
const CHUNK_BYTES = 256 * 1024;
const NEWLINE = 10;

/** What a handler is given beside its grant. */
export interface Surroundings {
  readonly root: Buffer;
  /** Fires when the work on the split has to stop at once. */
  readonly signal: AbortSignal;
  /** Told of each file that was read to its end, before its result is committed. */
  readonly onFile: (splitId: string, index: number, bytes: number) => void;
  /** Waited for before the end, with the last files uncommitted; false: hand the split back instead. Absent: true. */
  readonly mayEnd?: (grant: Grant) => Promise<boolean>;
}

export async function processSplit(grant: Grant, around: Surroundings): Promise<void> {
  const paths = pathsOf(grant.split.descriptor);
  const state = grant.progress?.state ?? null;
  const tally = state === null ? new Tally() : Tally.decode(state);
  let done = Number(grant.progress?.watermark ?? 0);
  let committed = done;
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);

  while (done < paths.length) {
    const path = paths[done]!;
    const facts = await readFacts(inside(around.root, path), buffer, around.signal);
    tally.add(path, facts);
    around.onFile(grant.split.id, done, facts.bytes);
    // Whoever listens may have ended this process.
    around.signal.throwIfAborted();
    done += 1;

    const isAskedBack = grant.draining.requested;
    if (done < paths.length && (isAskedBack || done - committed >= FILES_PER_COMMIT)) {
      await grant.commit({ watermark: done, state: tally.encode() });
      committed = done;
      // All that was done is committed: a safe place to hand the split back.
      if (isAskedBack) return;
    }
  }
  const isEnd = around.mayEnd === undefined || (await around.mayEnd(grant));
  if (isEnd) await grant.complete({ watermark: done, state: tally.encode() });
  else await grant.commit({ watermark: done, state: tally.encode() });
}

/** Reads a file in chunks; between two of them the event loop goes round. */
async function readFacts(path: Buffer, buffer: Buffer, signal: AbortSignal): Promise<FileFacts> {
  signal.throwIfAborted();
  try {
    const file = await open(path, 'r');
    try {
      const hash = createHash('sha256');
      let bytes = 0;
      let newlines = 0;
      let lastByte = NEWLINE;
      for (;;) {
        const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
        signal.throwIfAborted();
        if (bytesRead === 0) break;
        const read = buffer.subarray(0, bytesRead);
        hash.update(read);
        bytes += bytesRead;
        for (let at = read.indexOf(NEWLINE); at >= 0; at = read.indexOf(NEWLINE, at + 1)) {
          newlines += 1;
        }
        lastByte = read[bytesRead - 1]!;
      }
      return { bytes, lines: newlines + (lastByte === NEWLINE ? 0 : 1), hash: hash.digest() };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw new UnreadableError(path, error);
  }
}
