/**
 * One process of the fleet, with one worker in it: the same planner and handler as everywhere, on a store that all
 * processes share. It is started with a `WorkerSetup` and ends with the job, or when the process that started it is gone.
 */
import { setMaxListeners } from 'node:events';
import { createWorker, type Grant, isLeaseholdError } from '../../../src/index.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import { processSplit } from '../handler.ts';
import { CONFIG } from '../job.ts';
import { listFiles, UnreadableError } from '../list-files.ts';
import { packSplits } from '../plan.ts';
import { HeldWrites } from './held-writes.ts';
import { type FromWorker, SPLITS_AT_A_TIME, type ToWorker, type WorkerSetup } from './messages.ts';
import { Turns } from './turns.ts';

/** Being disturbed again and again is no fault of a split. */
const MAX_ATTEMPTS = 100;

const setup = JSON.parse(process.argv[2]!) as WorkerSetup;
const root = Buffer.from(setup.root, 'hex');
const writes = new HeldWrites(etcdStore({ endpoints: setup.endpoints }), (commits) => {
  void say({ type: 'held', commits });
});
const turns = new Turns(SPLITS_AT_A_TIME);
/** Splits that wait for leave to end, by split and epoch. */
const asking = new Map<string, () => void>();
const failed = new AbortController();
setMaxListeners(0, failed.signal);

const worker = createWorker({
  job: setup.job,
  store: writes.store,
  instanceId: setup.instanceId,
  planner: {
    fingerprint: () => `files of ${setup.root}`,
    plan: async () => ({ splits: packSplits((await listFiles(root)).files), finality: 'final' }),
  },
  config: { ...CONFIG, maxInFlight: setup.maxInFlight, maxAttempts: MAX_ATTEMPTS },
});

function say(message: FromWorker): Promise<void> {
  return new Promise((resolve) => {
    process.send!(message, () => {
      resolve();
    });
  });
}

function hear(message: ToWorker): void {
  switch (message.type) {
    case 'end':
      asking.get(`${message.splitId} ${message.epoch}`)?.();
      break;
    case 'hold':
      writes.hold();
      break;
    case 'release':
      void writes.release().then((released) => say({ type: 'released', ...released }));
      break;
  }
}

async function handle(grant: Grant): Promise<void> {
  const work = (): Promise<void> =>
    processSplit(grant, {
      root,
      signal: AbortSignal.any([grant.lost, failed.signal]),
      onFile: (splitId, index, bytes) => {
        void say({ type: 'fileRead', splitId, index, bytes });
      },
      mayEnd,
    });
  try {
    await turns.run(grant, work);
  } catch (error) {
    // A split that was lost goes to somebody else; anything else ends the whole job.
    const isLost = grant.lost.aborted || (isLeaseholdError(error) && error.kind === 'fenced');
    if (!isLost) failed.abort(error);
    throw error;
  }
}

/** Whether the split may end: asks the process that started this one; false when the split is asked back before. */
async function mayEnd({ split, epoch, draining, lost }: Grant): Promise<boolean> {
  const key = `${split.id} ${epoch}`;
  const leave = new Promise<boolean>((resolve) => {
    asking.set(key, () => {
      resolve(true);
    });
  });
  void say({ type: 'mayEnd', splitId: split.id, epoch });
  const mayIt = await Promise.race([leave, draining.whenRequested().then(() => false)]);
  asking.delete(key);
  lost.throwIfAborted();
  return mayIt;
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Anything else is a bug: its stack is wanted.
  const isExpected = error instanceof UnreadableError || isLeaseholdError(error);
  return isExpected ? error.message : (error.stack ?? error.message);
}

/** Nobody is left to report to. */
function abandoned(): void {
  process.exit(1);
}

process.on('message', hear);
process.on('disconnect', abandoned);
try {
  const { kind } = await worker.run(handle, { signal: failed.signal });
  await say({ type: 'ended', verdict: kind });
} catch (error) {
  await say({ type: 'failed', message: describe(error) });
} finally {
  await writes.store.close();
  process.off('disconnect', abandoned);
  process.disconnect();
}
