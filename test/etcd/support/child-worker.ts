/** A worker in a process of its own, told what to do by its parent; see `child.ts`. */
import { createWorker, type WorkerConfig } from '../../../src/index.ts';
import { etcdStore } from '../../../src/store/etcd/index.ts';
import { finalPlan } from '../../support/fleet.ts';
import { manySplits } from './many-splits.ts';
import { machineMs, type Note } from './time-line.ts';
import { noteEvent, steadyWork } from './work.ts';

/** What a child is started with. */
export interface ChildSetup {
  readonly id: string;
  readonly job: string;
  readonly prefix: string;
  readonly endpoints: readonly string[];
  readonly splits: readonly string[];
  /** In place of `splits`, where these are too many to be named. */
  readonly manySplits?: number;
  readonly config: Partial<WorkerConfig>;
  readonly work: { readonly steps?: number; readonly stepMs: number };
}

/** What a child may be told. */
export type ChildCommand =
  /** Blocks the event loop within the next step of the handler. */
  { readonly kind: 'block'; readonly ms: number } | { readonly kind: 'stop' };

const setup = JSON.parse(process.argv[2]!) as ChildSetup;
const store = etcdStore({ endpoints: setup.endpoints });
let blockMs = 0;

const note: Note = (moment) => {
  if (process.connected) process.send!({ atMs: machineMs(), worker: setup.id, ...moment });
};

function blockIfTold(split: string): void {
  if (blockMs === 0) return;
  const endMs = machineMs() + blockMs;
  blockMs = 0;
  note({ what: 'blocked', split });
  while (machineMs() < endMs);
  note({ what: 'unblocked', split });
}

const worker = createWorker({
  job: setup.job,
  prefix: setup.prefix,
  store,
  instanceId: setup.id,
  planner:
    setup.manySplits === undefined
      ? finalPlan(setup.splits)
      : manySplits(setup.manySplits, () => {
          note({ what: 'planned' });
        }),
  config: setup.config,
});
void (async () => {
  for await (const event of worker.events()) noteEvent(note, event);
})();

process.on('message', (command: ChildCommand) => {
  if (command.kind === 'block') blockMs = command.ms;
  else void worker.stop();
});
// The test is gone.
process.on('disconnect', () => void worker.stop());

const handler = steadyWork(note, { ...setup.work, beforeCommit: blockIfTold });
try {
  const verdict = await worker.run(handler);
  note({ what: 'finished', detail: verdict.kind });
} catch (error) {
  note({ what: 'failed', detail: (error as { code?: string }).code ?? String(error) });
}
await store.close();
if (process.connected) process.disconnect();
