/**
 * The same counts without a fleet: walk the tree, then read one file after the other, some at a time. It shares no code with
 * the planner or the handler beyond the definition of a tally, so that a mistake of theirs shows.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { type FileFacts, Tally } from './tally.ts';

const FILES_AT_A_TIME = 16;

/** Counts a whole tree. */
export async function countTree(root: Buffer): Promise<Tally> {
  const tally = new Tally();
  const paths = await walk(root, '');
  for (let start = 0; start < paths.length; start += FILES_AT_A_TIME) {
    const some = paths.slice(start, start + FILES_AT_A_TIME);
    const facts = await Promise.all(some.map((path) => factsOf(at(root, path))));
    some.forEach((path, index) => {
      tally.add(Buffer.from(path, 'latin1'), facts[index]!);
    });
  }
  return tally;
}

/** Paths of all files under `relative`, in latin1, which has one character for each byte. */
async function walk(root: Buffer, relative: string): Promise<string[]> {
  const entries = await readdir(at(root, relative), { withFileTypes: true, encoding: 'latin1' });
  const paths: string[] = [];
  for (const entry of entries) {
    const path = relative + entry.name;
    if (entry.isFile()) paths.push(path);
    if (entry.isDirectory()) for (const inner of await walk(root, `${path}/`)) paths.push(inner);
  }
  return paths;
}

function at(root: Buffer, relative: string): Buffer {
  return Buffer.concat([root, Buffer.from(`/${relative}`, 'latin1')]);
}

async function factsOf(path: Buffer): Promise<FileFacts> {
  const hash = createHash('sha256');
  let bytes = 0;
  let lines = 0;
  let isInsideLine = false;
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
    for (const byte of chunk) {
      // A line is counted where it begins.
      if (!isInsideLine) lines += 1;
      isInsideLine = byte !== 0x0a;
    }
  }
  return { bytes, lines, hash: hash.digest() };
}
