/** A real worker on its way out, with one split in hand: what is handed back, what is not answered, and what is left. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import type { StopReport } from '../../../../src/coordinator/api/api.ts';
import { presenceCodec } from '../../../../src/records/records.ts';
import { chartOf } from '../../drive.ts';
import { touches } from '../calls.ts';
import type { Replace } from '../chart-probe.ts';
import type { Gate } from '../held-store.ts';
import { type Part, type Path, say, type World } from './part.ts';
import { DRAIN_MS, ME, OPERATION_MS, SPLIT, Stage } from '../stage.ts';

class DepartureWorld implements World {
  readonly id = ME;
  readonly why: StopReport['reason'];
  readonly stage: Stage;
  readonly endings: Gate;
  readonly leaves: Gate;
  readonly closings: Gate;
  readonly announcements: Gate;
  report: StopReport | null = null;
  /** When it was asked to leave, and when the drain was over. */
  askedAtMs = 0;

  constructor(why: StopReport['reason'], replace: Replace | undefined) {
    this.why = why;
    this.stage = new Stage({ replace });
    const { keys, hand, held } = this.stage;
    this.endings = held.gate(touches({ deletes: [keys.lease(SPLIT)] }));
    this.leaves = held.gate(touches({ deletes: [keys.presence(ME)] }));
    this.closings = held.gate(({ kind }) => kind === 'closeSession');
    this.announcements = held.gate(touches({ puts: [keys.presence(ME)] }));
    hand.lead();
    hand.plan();
    hand.spec(SPLIT);
    hand.split(SPLIT);
    hand.assign(ME, [SPLIT]);
  }

  get probe() {
    return this.stage.probe;
  }

  get feed() {
    return this.stage.feed;
  }

  until(condition: () => boolean): Promise<boolean> {
    return this.stage.until(condition, DRAIN_MS + OPERATION_MS);
  }

  shown(): string {
    return this.stage.worker.status().charts.departure;
  }

  inject(event: AnyEventObject): void {
    this.stage.inject('departure', ME, event);
  }

  get tenancy(): string | undefined {
    return this.stage.worker.status().tenancies.find(({ split }) => split === SPLIT)?.state;
  }

  get presence() {
    const decoded = presenceCodec.decode(
      this.stage.entry(this.stage.keys.presence(ME))?.value ?? '',
    );
    return decoded.kind === 'record' ? decoded.record : null;
  }

  get isLeased(): boolean {
    return this.stage.lease()?.owner === ME;
  }

  async leave(): Promise<void> {
    const { stage } = this;
    this.askedAtMs = stage.clock.nowMs();
    // Somebody gave the job another configuration under its feet: it cannot go on.
    if (this.why === 'failed') stage.hand.plan({ fingerprint: 'another' });
    await stage.clock.settle();
    void stage.worker.stop().then((report) => (this.report = report));
  }

  /** The state lasts until so long after it was asked to leave, and no longer. */
  async restUntil(ms: number): Promise<void> {
    const { clock } = this.stage;
    const before = this.shown();
    await clock.advance(this.askedAtMs + ms - 1 - clock.nowMs());
    if (this.shown() !== before) throw new Error(`${before} was over before ${ms} ms`);
    await clock.advance(1);
    if (this.shown() === before) throw new Error(`${before} was not over after ${ms} ms`);
  }
}

interface Model {
  /** The split's last write was answered. */
  readonly hasEnded: boolean;
  /** The part that was cut last, if any: what follows has its own time. */
  readonly cut: string;
}

/** The parts after the drain end at these shares of the time they have together. */
const SHARES = { settling: 1 / 2, goodbye: 3 / 4, closing: 1 };

/** After a fatal error the whole departure fits into the drain deadline. */
const drainMsOf = ({ why }: DepartureWorld): number =>
  why === 'failed' ? DRAIN_MS - OPERATION_MS : DRAIN_MS;

/** When a part is over at the latest, after the leaving began: the drain was over at once, or took all its time. */
function endOf(world: DepartureWorld, share: number): number {
  const wasCut = world.probe.steps.some(
    ({ of, event }) => of.chart === 'departure' && event.type === 'drain.expired',
  );
  return (wasCut ? drainMsOf(world) : 0) + OPERATION_MS * share;
}

const mayWriteNothing = (world: DepartureWorld): string[] =>
  say(
    world.tenancy === undefined || world.tenancy.startsWith('held.closing'),
    `the split is ${String(world.tenancy)}`,
  );

const isAnnounced = (world: DepartureWorld): string[] =>
  say(world.presence?.parting === true, 'it is not announced as parting');

export function departurePart(why: 'stopped' | 'failed'): Part<DepartureWorld, Model> {
  return {
    chart: chartOf('departure'),
    input: { instance: ME },
    model: { hasEnded: false, cut: '' },
    payloads: {
      'leave.asked': [{ atMs: 0, drainMs: DRAIN_MS, settleMs: OPERATION_MS }],
      'drain.finished': [{ atMs: 0 }],
      'tenancies.ended': [{ atMs: 0 }],
      'goodbye.answered': [{ atMs: 0 }],
    },
    next: ({ hasEnded, cut }, { type }) => ({
      hasEnded: hasEnded || type === 'tenancies.ended',
      cut: type.endsWith('.expired') && type !== 'closing.expired' ? type : cut,
    }),
    // What has ended needs no time to be waited for.
    isPossible: ({ type }, state, model) => {
      if (type === 'leave.skipped') return why === 'stopped';
      return (
        !model.hasEnded || !state.matches({ closing: 'answers' }) || type === 'tenancies.ended'
      );
    },

    async begin(path: Path, replace) {
      const world = new DepartureWorld(why, replace);
      if (path[0]?.type === 'leave.skipped') return world;
      world.stage.start();
      await world.stage.until(() => world.tenancy === 'held.owned');
      for (const gate of [world.endings, world.leaves, world.closings]) gate.shut();
      return world;
    },

    executors: {
      'leave.asked': (world) => world.leave(),
      'leave.skipped': (world) => world.leave(),
      'drain.finished': ({ stage }) => {
        stage.worker.releaseDrained([SPLIT]).catch(() => undefined);
      },
      'drain.expired': (world) => world.restUntil(drainMsOf(world)),
      'tenancies.ended': async ({ stage, endings }) => {
        // What was not answered is sent again.
        await stage.until(() => endings.waiting > 0, OPERATION_MS / 4);
        endings.open();
      },
      'settling.expired': (world) => world.restUntil(endOf(world, SHARES.settling)),
      // Later than at once: the calls that follow are given up after the time for all is over.
      'goodbye.answered': async ({ stage, leaves }) => {
        await stage.clock.advance(OPERATION_MS / 20);
        leaves.pass();
      },
      'goodbye.expired': (world) => world.restUntil(endOf(world, SHARES.goodbye)),
      'sessions.closed': ({ closings }) => {
        closings.pass();
      },
      'closing.expired': (world) => world.restUntil(endOf(world, SHARES.closing)),
    },

    promises: {
      staying: () => [],
      draining: (world) => [
        ...isAnnounced(world),
        ...say(
          world.stage.events.some(({ type }) => type === 'revokeRequested'),
          'the service was not asked for the split',
        ),
        ...say(world.tenancy === 'held.draining', `the split is ${String(world.tenancy)}`),
      ],
      settling: (world) => [
        ...isAnnounced(world),
        ...mayWriteNothing(world),
        ...say(
          world.stage.worker.status().charts.leader === 'departed',
          'it stands for election still',
        ),
      ],
      leaving: (world) => [
        ...mayWriteNothing(world),
        ...say(world.leaves.waiting > 0, 'its name is not taken out of the fleet'),
      ],
      closing: (world) => [...mayWriteNothing(world)],
      'closing.sessions': (world) =>
        say(world.closings.waiting > 0, 'its session is not given back'),
      'closing.answers': (world) => say(world.closings.waiting === 0, 'its session is not closed'),
      gone: async (world) => {
        await world.stage.clock.settle();
        const { status } = world.stage.worker;
        const { report, stage } = world;
        const hasHeld = stage.events.some(({ type }) => type === 'gained');
        const isUnsettled =
          hasHeld && stage.probe.steps.every(({ event }) => event.type !== 'ending.landed');
        return [
          ...say(report !== null, 'nobody was told'),
          ...say(
            report?.reason === why && (report.error === null) === (why === 'stopped'),
            'it left for another reason',
          ),
          ...say(
            report?.unsettled.includes(SPLIT) === isUnsettled,
            'the report is wrong about the split',
          ),
          ...say(status.call(stage.worker).requestsInFlight === 0, 'a call is awaited'),
          ...say(stage.client.openWatches === 0, 'something is watched'),
        ];
      },
    },

    mayFollow: ({ type }, state: AnyMachineSnapshot) =>
      type === 'tenancies.ended' && state.matches('closing'),

    /** Whatever was not answered in time lands or not; a session that was given back takes its keys along. */
    async atEnd(world, last) {
      if (!last.matches('gone')) return [];
      world.leaves.open();
      world.closings.open();
      const writes = world.stage.store.revision;
      const sent = Object.values(world.stage.client.counts).join();
      await world.stage.clock.advance(DRAIN_MS);
      return say(
        Object.values(world.stage.client.counts).join() === sent ||
          world.stage.store.revision !== writes,
        'it asks the store still',
      );
    },
  };
}
