/**
 * A worker of any version in a process of its own: what it is made of is imported from where its parent says. It adds up
 * the sums of `task.ts`, and does what it is told; see `mixed-fleet.ts`.
 */
import type { Logger } from '../../../../src/base/logger.ts';
import type { WorkerConfig } from '../../../../src/coordinator/api/config.ts';
import type { Grant } from '../../../../src/driver/grant.ts';
import type { Handler } from '../../../../src/driver/worker.ts';
import type * as Main from '../../../../src/index.ts';
import type * as Etcd from '../../../../src/store/etcd/index.ts';
import type { Store } from '../../../../src/store/port.ts';
import { machineMs } from '../time-line.ts';
import type { Note } from '../time-line.ts';
import { noteEvent } from '../work.ts';
import { stepped, stumblesAt, type Task } from './task.ts';
import type { Version } from './version.ts';

/** What a process is started with. */
export interface ProgramSetup {
  readonly id: string;
  readonly version: Version;
  readonly job: string;
  readonly prefix: string;
  readonly endpoints: readonly string[];
  readonly tasks: readonly Task[];
  readonly config: Partial<WorkerConfig>;
  readonly stepMs: number;
}

/** What it may be told. */
export type ProgramCommand =
  | { readonly kind: 'stop' }
  /** From now on no task waits before its last step. */
  | { readonly kind: 'finish'; readonly stepMs: number };

/** Every so many steps one is told to the parent. */
const NOTED_EVERY = 10;

const setup = JSON.parse(process.argv[2]!) as ProgramSetup;
const { entry, adds } = setup.version;
const { createWorker } = (await import(entry.main)) as typeof Main;
const { etcdStore } = (await import(entry.etcd)) as typeof Etcd;

const note: Note = (moment) => {
  if (process.connected) process.send!({ atMs: machineMs(), worker: setup.id, ...moment });
};
let { stepMs } = setup;
let mayFinish = false;

/** The same store, but that every record it is given gets some more fields. */
function adding(store: Store, fields: Readonly<Record<string, unknown>>): Store {
  // Probes are no records.
  const withFields = (key: string, value: string): string =>
    key.includes('/probe/')
      ? value
      : JSON.stringify({ ...(JSON.parse(value) as Record<string, unknown>), ...fields });
  return {
    name: store.name,
    openSession: store.openSession.bind(store),
    keepAlive: store.keepAlive.bind(store),
    closeSession: store.closeSession.bind(store),
    read: store.read.bind(store),
    watch: store.watch.bind(store),
    close: store.close.bind(store),
    transact: ({ guard, txns }, options) =>
      store.transact(
        {
          guard,
          txns: txns.map((txn) => ({
            ...txn,
            writes: txn.writes.map((write) =>
              'put' in write ? { ...write, value: withFields(write.put, write.value) } : write,
            ),
          })),
        },
        options,
      ),
  };
}

/** Warnings and errors become moments. */
function noting(): Logger {
  const line =
    (level: string): Logger['warn'] =>
    (fields, message) => {
      note({
        what: level,
        detail: `${String(fields.event)}: ${message} ${JSON.stringify(fields)}`,
      });
    };
  const silent: Logger['warn'] = () => undefined;
  return { debug: silent, info: silent, warn: line('warn'), error: line('error') };
}

/** Waits for the next step, at most until the split is asked back. */
async function pause(grant: Grant): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const time = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, stepMs);
  });
  await Promise.race([time, grant.draining.whenRequested()]);
  clearTimeout(timer);
}

async function steps(grant: Grant, told: (what: string, watermark: number) => void) {
  const task = JSON.parse(Buffer.from(grant.split.descriptor).toString()) as Task;
  const begin = Number(grant.progress?.watermark ?? 0n);
  const stored = grant.progress?.state ?? null;
  let state = stored === null ? null : Buffer.from(stored).toString();
  let at = begin;
  told('started', at);
  for (;;) {
    await pause(grant);
    if (grant.lost.aborted || grant.draining.requested) return;
    const isLast = at === task.steps - 1;
    if (isLast && task.isLong && !mayFinish) continue;
    if (at !== begin && stumblesAt(task, at)) {
      told('stumbled', at);
      throw new Error(`it stumbles at ${at}`);
    }
    state = stepped(task, state);
    at += 1;
    if (isLast) {
      await grant.complete({ watermark: at, state });
      told('completed', at);
      return;
    }
    await grant.commit({ watermark: at, state });
    if (at % NOTED_EVERY === 0) told('committed', at);
  }
}

const handler: Handler = async (grant) => {
  const about = { split: grant.split.id, epoch: grant.epoch };
  grant.lost.addEventListener('abort', () => {
    note({ ...about, what: 'aborted' });
  });
  try {
    await steps(grant, (what, watermark) => {
      note({ ...about, what, watermark });
    });
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== undefined) note({ ...about, what: 'refused', detail: code });
    throw error;
  } finally {
    note({ ...about, what: 'ended' });
  }
};

const store = etcdStore({ endpoints: setup.endpoints });
const worker = createWorker({
  job: setup.job,
  prefix: setup.prefix,
  store: adds === undefined ? store : adding(store, adds),
  instanceId: setup.id,
  host: setup.version.name,
  planner: {
    fingerprint: () => 'tasks',
    plan: () => ({
      splits: setup.tasks.map((task) => ({ id: task.id, descriptor: JSON.stringify(task) })),
      finality: 'final',
    }),
  },
  config: setup.config,
  logger: noting(),
});
void (async () => {
  for await (const event of worker.events()) noteEvent(note, event);
})();

process.on('message', (command: ProgramCommand) => {
  if (command.kind === 'stop') {
    void worker.stop();
    return;
  }
  ({ stepMs } = command);
  mayFinish = true;
});
// The test is gone.
process.on('disconnect', () => void worker.stop());

try {
  const verdict = await worker.run(handler);
  note({ what: 'finished', detail: verdict.kind });
} catch (error) {
  note({ what: 'failed', detail: (error as { code?: string }).code ?? String(error) });
}
await store.close();
if (process.connected) process.disconnect();
