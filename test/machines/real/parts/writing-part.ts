/** A lane of the real batcher over a store: batches that are answered, lost, sent again and given up. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import { writingMachine } from '../../../../machines/writing/writing.machine.ts';
import { seededRandom } from '../../../../src/base/random.ts';
import { virtualClock } from '../../../../src/base/virtual-clock.ts';
import { Batcher } from '../../../../src/coordinator/link/batcher.ts';
import type { Transition } from '../../../../src/coordinator/api/transition.ts';
import { ChartHost } from '../../../../src/coordinator/loop/chart-host.ts';
import { Mailbox } from '../../../../src/coordinator/loop/mailbox.ts';
import { StoreGate } from '../../../../src/coordinator/link/store-gate.ts';
import { TimerSet } from '../../../../src/coordinator/loop/timers.ts';
import { faultyStore } from '../../../../src/store/faults.ts';
import { memoryStore } from '../../../../src/store/memory.ts';
import { putItem, type TestItem } from '../../../support/parts.ts';
import { chartOf } from '../../drive.ts';
import { ChartProbe, listening, type Replace } from '../chart-probe.ts';
import { HeldStore } from '../held-store.ts';
import { type Part, say, type World } from './part.ts';

const LANE = 1;
/** Longer than any pause between two sends. */
const TIMEOUT_MS = 60_000;

class WritingWorld implements World {
  readonly id = String(LANE);
  readonly clock = virtualClock();
  readonly store = memoryStore({ clock: this.clock, keepAudit: true });
  readonly client = faultyStore(this.store, { clock: this.clock, random: seededRandom(1) });
  readonly held = new HeldStore(this.client);
  readonly sends = this.held.gate(({ kind }) => kind === 'transact');
  readonly probe: ChartProbe;
  readonly feed: Transition[] = [];
  readonly batcher: Batcher;
  readonly items: TestItem[] = [];
  readonly crashes: unknown[] = [];

  constructor(replace: Replace | undefined) {
    this.probe = new ChartProbe(replace);
    this.batcher = listening(this.probe, () => this.#build());
    this.sends.shut();
  }

  until(condition: () => boolean): Promise<boolean> {
    return this.#until(condition);
  }

  shown(): string | undefined {
    return this.batcher.laneStates()[LANE - 1]?.state;
  }

  inject(event: AnyEventObject): void {
    this.probe.find('writing', this.id)!.running.send(event);
  }

  get item(): TestItem | undefined {
    return this.items.at(-1);
  }

  submit(): void {
    const item = putItem(`key-${this.items.length}`);
    this.items.push(item);
    this.batcher.enqueue(item);
  }

  /** What became of the item that was submitted last; empty while nobody knows. */
  get answer(): string {
    return this.item?.answers.map(({ kind }) => kind).join() ?? '';
  }

  #build(): Batcher {
    const crash = (error: unknown): void => {
      this.crashes.push(error);
    };
    const timers = new TimerSet(this.clock);
    const mailbox = new Mailbox(() => undefined, crash);
    const charts = new ChartHost(timers, (transition) => this.feed.push(transition), crash);
    const gate = new StoreGate(this.held, timers, {
      opTimeoutMs: TIMEOUT_MS,
      root: '',
      leaderKey: 'leader',
    });
    return new Batcher(
      { gate, clock: timers, mailbox, charts, isEphemeral: () => false },
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
  }

  async #until(condition: () => boolean): Promise<boolean> {
    for (let waitedMs = 0; waitedMs < 5_000; waitedMs += 50) {
      await this.clock.settle();
      if (condition()) return true;
      await this.clock.advance(50);
    }
    return false;
  }
}

/** A batch is on its way, and nothing is known of it. */
type Model = 'under way' | 'at rest';

function isPossible({ type }: AnyEventObject, snapshot: AnyMachineSnapshot, model: Model): boolean {
  if (!snapshot.matches('settling')) return true;
  if (type === 'resend.due') return model === 'at rest';
  // Only a send can be answered, or not.
  if (type === 'batch.answered' || type === 'batch.unanswered') return model === 'under way';
  // What waits for its next send can be dropped.
  if (type === 'batch.abandoned') return model === 'at rest';
  return true;
}

const sameSends = ({ client }: WritingWorld): boolean => {
  const sent = client.log.flatMap(({ call }) => (call.kind === 'transact' ? [call.batch] : []));
  const byKey = new Map<string, Set<string>>();
  for (const { txns } of sent) {
    for (const txn of txns) {
      const key = txn.onConflict[0]!;
      byKey.set(key, (byKey.get(key) ?? new Set()).add(JSON.stringify(txn)));
    }
  }
  return [...byKey.values()].every((texts) => texts.size === 1);
};

const isWell = (world: WritingWorld): string[] => [
  ...say(world.crashes.length === 0, `it crashed: ${String(world.crashes[0])}`),
  ...say(sameSends(world), 'a batch was sent again with another content'),
];

export const writingPart: Part<WritingWorld, Model> = {
  chart: chartOf('writing'),
  input: { lane: LANE, resendMs: 100, resendMsMax: 2_000 },
  model: 'at rest',
  next: (model, { type }) => {
    if (type === 'batch.submitted' || type === 'resend.due') return 'under way';
    return type === 'lane.closed' ? model : 'at rest';
  },
  isPossible,

  async begin(_, replace) {
    const world = new WritingWorld(replace);
    await world.clock.settle();
    return world;
  },

  executors: {
    'batch.submitted': (world) => {
      world.submit();
    },
    'batch.unanswered': async (world) => {
      // A lane that writes takes the next batch without a word.
      if (world.sends.waiting === 0) world.submit();
      await world.clock.settle();
      world.sends.lose('E_OUTCOME_UNKNOWN');
    },
    'batch.answered': ({ sends }) => {
      sends.pass();
    },
    'batch.abandoned': (world) => {
      world.item!.isOver = true;
      world.batcher.dropStale();
    },
    'resend.due': () => undefined,
    'lane.rested': async ({ sends, batcher, clock }) => {
      sends.pass();
      await clock.settle();
      batcher.rest();
    },
    'lane.closed': ({ batcher }) => {
      batcher.close();
    },
  },

  promises: {
    idle: (world) => [
      ...isWell(world),
      ...say(world.batcher.unsettled === 0, 'something is on its way'),
      ...say(world.answer === 'committed', `the batch was ${world.answer}`),
    ],
    writing: isWell,
    settling: (world) => [
      ...isWell(world),
      ...say(world.answer === '', `the batch was ${world.answer}`),
      ...say(world.batcher.unsettled === 1, 'the batch was given up'),
    ],
    closed: (world) => [
      ...isWell(world),
      ...say(world.batcher.unsettled === 0, 'something is on its way'),
      ...say(
        world.items.every(({ answers }) => answers.length === 1),
        'somebody still waits',
      ),
    ],
  },

  /** Whatever was answered is there, and nothing else is believed to be. */
  atEnd(world) {
    return world.items.flatMap((item) => {
      const isThere = world.store.dump(item.name).length > 0;
      const isKnown = item.answers[0]?.kind === 'committed';
      return say(isThere || !isKnown, `${item.name} was answered and is not there`);
    });
  },
};
