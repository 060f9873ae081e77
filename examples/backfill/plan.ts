/**
 * Packs files into splits: the units of work that the fleet divides.
 *
 * The same listing always gives the same splits with the same ids, so it does not matter who plans, or how often.
 */
import { createHash } from 'node:crypto';
import type { PlannedSplit } from '../../src/index.ts';
import type { ListedFile } from './list-files.ts';

/** Enough that the balance is fine-grained, few enough that each is worth a claim. */
const SPLITS_WANTED = 96;
/** Opening a file costs about as much as reading this many bytes of it. */
const OPENING_COSTS_BYTES = 32 * 1024;
const FILES_PER_SPLIT_MAX = 1_000;
const DESCRIPTOR_BYTES_MAX = 64 * 1024;
const END_OF_PATH = 0;

/** Packs files in their order; one that is a split's worth by itself gets a split by itself. */
export function packSplits(files: readonly ListedFile[]): PlannedSplit[] {
  const totalCost = files.reduce((sum, file) => sum + costOf(file), 0);
  const costMax = Math.ceil(totalCost / SPLITS_WANTED);
  const splits: PlannedSplit[] = [];
  let pack: ListedFile[] = [];
  let cost = 0;
  let descriptorBytes = 0;
  const close = (): void => {
    if (pack.length > 0) splits.push(splitOf(pack));
    pack = [];
    cost = 0;
    descriptorBytes = 0;
  };
  for (const file of files) {
    if (costOf(file) > costMax) {
      splits.push(splitOf([file]));
      continue;
    }
    const isFull =
      cost + costOf(file) > costMax ||
      descriptorBytes + file.path.length + 1 > DESCRIPTOR_BYTES_MAX ||
      pack.length === FILES_PER_SPLIT_MAX;
    if (isFull) close();
    pack.push(file);
    cost += costOf(file);
    descriptorBytes += file.path.length + 1;
  }
  close();
  return splits;
}

/** The paths in a descriptor, in the order of their packing. */
export function pathsOf(descriptor: Uint8Array): Buffer[] {
  const bytes = Buffer.from(descriptor);
  const paths: Buffer[] = [];
  for (let start = 0; start < bytes.length;) {
    const end = bytes.indexOf(END_OF_PATH, start);
    paths.push(bytes.subarray(start, end));
    start = end + 1;
  }
  return paths;
}

function costOf(file: ListedFile): number {
  return file.bytes + OPENING_COSTS_BYTES;
}

/** The id is a hash of what is in the split: the same work gets the same id in every run. */
function splitOf(files: readonly ListedFile[]): PlannedSplit {
  const descriptor = Buffer.concat(files.flatMap(({ path }) => [path, Buffer.from([END_OF_PATH])]));
  const sizes = files.map(({ bytes }) => bytes).join(',');
  const hash = createHash('sha256').update(descriptor).update(sizes).digest('hex');
  return {
    id: `files-${hash.slice(0, 24)}`,
    descriptor,
    weight: files.reduce((sum, file) => sum + costOf(file), 0),
  };
}
