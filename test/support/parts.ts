/** The lower parts of one worker, put together without the rest, over a store whose connection can go wrong. */
import { seededRandom } from '../../src/base/random.ts';
import { type VirtualClock, virtualClock } from '../../src/base/virtual-clock.ts';
import {
  Batcher,
  NO_GUARD,
  type WriteAnswer,
  type WriteItem,
} from '../../src/coordinator/link/batcher.ts';
import { type MemoryStore, memoryStore, type Transition } from '../../src/index.ts';
import { ChartHost } from '../../src/coordinator/loop/chart-host.ts';
import { Mailbox } from '../../src/coordinator/loop/mailbox.ts';
import { StoreGate } from '../../src/coordinator/link/store-gate.ts';
import { TimerSet } from '../../src/coordinator/loop/timers.ts';
import { type FaultyStore, faultyStore } from '../../src/store/faults.ts';
import type { MemoryStoreOptions } from '../../src/store/memory.ts';
import type { Batch } from '../../src/store/port.ts';
import { writingMachine } from '../../machines/writing/writing.machine.ts';

export const TIMEOUT_MS = 1_000;

export interface Parts {
  readonly clock: VirtualClock;
  readonly timers: TimerSet;
  readonly store: MemoryStore;
  readonly client: FaultyStore;
  readonly gate: StoreGate;
  readonly mailbox: Mailbox;
  readonly batcher: Batcher;
  readonly transitions: Transition[];
  /** What was thrown while handling messages. */
  readonly crashes: unknown[];
  /** The batches sent so far. */
  sent(): Batch[];
}

export function parts(options: Partial<MemoryStoreOptions> = {}): Parts {
  const clock = virtualClock();
  const timers = new TimerSet(clock);
  const store = memoryStore({ clock, keepAudit: true, ...options });
  const client = faultyStore(store, { clock, random: seededRandom(1) });
  const gate = new StoreGate(client, timers, {
    opTimeoutMs: TIMEOUT_MS,
    root: '',
    leaderKey: 'leader',
  });
  const crashes: unknown[] = [];
  const transitions: Transition[] = [];
  const crash = (error: unknown): void => {
    crashes.push(error);
  };
  const mailbox = new Mailbox(() => undefined, crash);
  const charts = new ChartHost(timers, (transition) => transitions.push(transition), crash);
  const batcher = new Batcher(
    { gate, mailbox, charts, clock: timers, isEphemeral: (key) => key.startsWith('lease') },
    (resend) =>
      writingMachine.provide({
        actions: {
          resendBatch: ({ context }) => {
            mailbox.post(() => {
              resend(context.lane);
            });
          },
        },
      }),
  );
  return {
    clock,
    timers,
    store,
    client,
    gate,
    mailbox,
    batcher,
    transitions,
    crashes,
    sent: () => client.log.flatMap(({ call }) => (call.kind === 'transact' ? [call.batch] : [])),
  };
}

/** An item that puts `value` at `key` if the key is absent, and what became of it. */
export interface TestItem extends WriteItem {
  readonly answers: WriteAnswer[];
  readonly failures: string[];
  isOver: boolean;
  builds: number;
}

export function putItem(key: string, value = 'v', change: Partial<WriteItem> = {}): TestItem {
  const item: TestItem = {
    name: key,
    isSessionBound: false,
    guard: NO_GUARD,
    build: () => {
      item.builds += 1;
      return {
        compares: [{ key, target: 'createRevision', equals: '0' as never }],
        writes: [{ put: key, value, session: null }],
        onConflict: [key],
      };
    },
    matters: () => !item.isOver,
    answered: (answer) => {
      item.answers.push(answer);
    },
    failed: (error) => {
      item.failures.push(error.code);
    },
    answers: [],
    failures: [],
    isOver: false,
    builds: 0,
    ...change,
  };
  return item;
}
