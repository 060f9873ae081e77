/** The presence of a real worker: probe, join, session and announcement against a store, up to having left. */
import type { AnyEventObject, AnyMachineSnapshot } from 'xstate';
import type { PresenceContext } from '../../../machines/presence/presence.events.ts';
import { presenceCodec } from '../../../src/records/records.ts';
import { looksAt } from '../../../src/store/faults.ts';
import { chartOf } from '../drive.ts';
import { touches } from './calls.ts';
import type { Replace } from './chart-probe.ts';
import type { Gate } from './held-store.ts';
import { type Part, say, type World } from './part.ts';
import { ME, Stage } from './stage.ts';

const FAILURES_MAX = 2;

class PresenceWorld implements World {
  readonly id = ME;
  readonly stage: Stage;
  readonly probes: Gate;
  readonly joins: Gate;
  readonly opens: Gate;
  readonly announcements: Gate;
  readonly leaves: Gate;
  /** A worker is on its way out until its session is closed. */
  readonly closings: Gate;
  /** Splits whose handlers are said to outlive their tenancies. */
  readonly outlived: string[] = [];
  failure: unknown = null;

  constructor(replace: Replace | undefined) {
    this.stage = new Stage({ config: { startupMaxAttempts: FAILURES_MAX }, replace });
    const { keys, hand, held, worker } = this.stage;
    this.probes = held.gate(touches({ puts: [`${keys.root}probe/`] }));
    const isJoin = looksAt((key) => key === keys.leader) as (call: unknown) => boolean;
    this.joins = held.gate(
      (call) =>
        call.kind === 'read' &&
        'keys' in call.range &&
        call.range.keys.includes(keys.plan) &&
        isJoin(call),
    );
    this.opens = held.gate(({ kind }) => kind === 'openSession');
    this.announcements = held.gate(touches({ puts: [keys.presence(ME)] }));
    this.leaves = held.gate(touches({ deletes: [keys.presence(ME)] }));
    this.closings = held.gate(({ kind }) => kind === 'closeSession');
    hand.plan();
    hand.lead();
    worker.verdict().catch((error: unknown) => (this.failure = error));
  }

  get probe() {
    return this.stage.probe;
  }

  get feed() {
    return this.stage.feed;
  }

  until(condition: () => boolean): Promise<boolean> {
    return this.stage.until(condition);
  }

  shown(): string | undefined {
    return this.stage.worker.status().presence;
  }

  inject(event: AnyEventObject): void {
    this.stage.inject('presence', ME, event);
  }

  /** What the fleet sees of this worker. */
  get presence() {
    const entry = this.stage.entry(this.stage.keys.presence(ME));
    const decoded = presenceCodec.decode(entry?.value ?? '');
    return decoded.kind === 'record' ? { ...decoded.record, session: entry!.session } : null;
  }

  /** Lets announcements through until everything has settled. */
  async letAnnounce(): Promise<void> {
    // One that was lost goes out again by itself.
    await this.stage.until(() => this.announcements.waiting > 0, 150);
    this.announcements.open();
    await this.stage.clock.settle();
    this.announcements.shut();
  }
}

/** What the worker waits for. */
interface Model {
  readonly awaits: 'step' | 'session' | 'announcement' | null;
  /** A failed try is about to be repeated. */
  readonly isPausing: boolean;
  readonly hasSession: boolean;
  readonly hasLanded: boolean;
}

const BEGIN: Model = { awaits: 'step', isPausing: false, hasSession: false, hasLanded: false };

function next(model: Model, { type }: AnyEventObject, before: AnyMachineSnapshot): Model {
  switch (type) {
    case 'probe.passed':
      return { ...model, awaits: 'step', isPausing: false };
    case 'job.joined':
      return { ...model, awaits: 'session', isPausing: false };
    case 'session.opened':
      return { ...model, awaits: 'announcement', hasSession: true };
    case 'announcement.landed':
      return { ...model, awaits: null, isPausing: false, hasLanded: true };
    case 'session.expired':
      return { ...model, awaits: 'session', hasSession: false, isPausing: !model.hasLanded };
    case 'step.failed':
      // An announcement is sent again by its lane.
      return { ...model, awaits: model.hasSession ? 'announcement' : null, isPausing: true };
    case 'step.retry': {
      const awaits = before.matches('announcing')
        ? model.hasSession
          ? 'announcement'
          : 'session'
        : 'step';
      return { ...model, awaits, isPausing: false };
    }
    default:
      return model;
  }
}

const failuresIn = ({ context }: AnyMachineSnapshot): number =>
  (context as PresenceContext).failures;

function isPossible(
  { type }: AnyEventObject,
  snapshot: AnyMachineSnapshot,
  { awaits, isPausing, hasSession, hasLanded }: Model,
): boolean {
  const isStarting = snapshot.matches('probing') || snapshot.matches('joining');
  switch (type) {
    case 'probe.passed':
    case 'job.joined':
      return awaits === 'step';
    case 'session.opened':
      return awaits === 'session';
    case 'announcement.landed':
      return awaits === 'announcement';
    case 'step.failed':
      return awaits !== null && !hasLanded && !isPausing;
    case 'step.retry':
      return isPausing;
    case 'session.expired':
      // Before the first announcement a lost session is a failed try too; the last one would end the startup.
      return (
        hasSession &&
        (snapshot.matches('present') || awaits === 'announcement') &&
        (hasLanded || failuresIn(snapshot) === 0)
      );
    case 'fatal.raised':
      // The first reason to leave counts.
      return !snapshot.matches('parting') && (!isStarting || awaits === 'step');
    default:
      return true;
  }
}

/** Who had announced itself is seen to leave, while its session lasts. */
async function expectParting(world: PresenceWorld): Promise<void> {
  const hasLanded = world.probe.steps.some(({ event }) => event.type === 'announcement.landed');
  if (!hasLanded || world.stage.worker.status().sessionLeftMs === 0) return;
  // One may be under way that was built before.
  await world.letAnnounce();
  await world.letAnnounce();
  if (world.presence?.parting !== true) throw new Error('it is not announced as parting');
}

export const presencePart: Part<PresenceWorld, Model> = {
  chart: chartOf('presence'),
  input: { instance: ME, failuresMax: FAILURES_MAX },
  model: BEGIN,
  next,
  isPossible,

  async begin(_, replace) {
    const world = new PresenceWorld(replace);
    world.probes.shut();
    world.joins.shut();
    world.announcements.shut();
    world.stage.start();
    await world.stage.clock.settle();
    return world;
  },

  executors: {
    'probe.passed': ({ probes }) => {
      probes.open();
    },
    'job.joined': ({ joins, opens, closings, leaves }) => {
      opens.shut();
      leaves.shut();
      closings.shut();
      joins.pass();
    },
    'session.opened': async ({ stage, opens }) => {
      await stage.until(() => opens.waiting > 0);
      opens.pass();
    },
    'announcement.landed': (world) => world.letAnnounce(),
    'announcement.due': async (world) => {
      const split = `x${world.outlived.length}`;
      world.outlived.push(split);
      world.stage.worker.handlerOutlives(split);
      await world.letAnnounce();
    },
    'presence.deleted': async (world) => {
      world.stage.hand.remove(world.stage.keys.presence(ME));
      await world.letAnnounce();
    },
    'session.expired': async (world) => {
      const { stage, announcements } = world;
      if (world.shown() === 'announcing') {
        // The write under it finds out.
        await stage.until(() => announcements.waiting > 0, 150);
        for (const session of stage.store.liveSessions) stage.store.expireSession(session);
        announcements.pass();
        return;
      }
      stage.client.partition();
      await stage.until(() => world.shown() === 'rejoining');
      stage.client.heal();
    },
    'step.failed': ({ probes, joins, opens, announcements }) => {
      probes.lose('E_OUTCOME_UNKNOWN');
      joins.lose('E_STORE_UNREACHABLE');
      opens.lose('E_STORE_UNREACHABLE');
      announcements.lose('E_OUTCOME_UNKNOWN');
    },
    'step.retry': () => undefined,
    'worker.stopping': ({ stage }) => {
      void stage.worker.stop();
    },
    'departure.finished': async (world) => {
      await expectParting(world);
      world.leaves.open();
      world.closings.open();
    },
    'fatal.raised': async (world) => {
      const { stage, probes, joins } = world;
      probes.lose('E_STORE_UNSUPPORTED');
      stage.hand.plan({ fingerprint: 'another' });
      joins.pass();
      await stage.clock.settle();
    },
  },

  promises: {
    probing: ({ presence }) => say(presence === null, 'it is announced'),
    joining: ({ presence }) => say(presence === null, 'it is announced'),
    announcing: ({ stage }) => {
      const { tenancies, sessionLeftMs, lanes } = stage.worker.status();
      return [
        ...say(tenancies.length === 0, 'it holds something'),
        ...say(sessionLeftMs === 0 || lanes.some(({ items }) => items > 0), 'nothing is announced'),
      ];
    },
    present: ({ stage, presence, outlived }) => [
      ...say(presence?.nonce === stage.worker.status().nonce, 'it is not announced'),
      ...say(presence?.parting === false, 'it is announced as parting'),
      ...say(
        presence !== null && stage.store.liveSessions.includes(presence.session!),
        'it hangs on no live session',
      ),
      ...say(
        outlived.every((split) => presence?.refuses.includes(split as never)),
        'what it refuses is not said',
      ),
    ],
    rejoining: ({ stage }) => [
      ...say(stage.worker.status().sessionLeftMs === 0, 'it still believes in its session'),
      ...say(
        stage.events.some(({ type }) => type === 'sessionLost'),
        'nobody was told',
      ),
    ],
    // Without a session nothing can be announced; what hangs on the old one goes with it.
    parting: ({ presence, announcements, stage }) =>
      say(
        presence === null ||
          presence.parting ||
          announcements.waiting > 0 ||
          stage.worker.status().sessionLeftMs === 0,
        'it is not announced as parting',
      ),
    departed: ({ stage, presence }) => [
      ...say(stage.worker.status().lastError === null, 'it shows an error'),
      ...say(presence === null, 'it is still announced'),
    ],
    failed: ({ stage, failure }) => [
      ...say(stage.worker.status().lastError !== null, 'it shows no error'),
      ...say(failure !== null, 'who waits for the verdict was not told'),
    ],
  },

  // Without a session leaving takes no time; a session that is open is told again; a write that is refused has failed.
  mayFollow: ({ type }) => ['departure.finished', 'session.opened', 'step.failed'].includes(type),

  unreachable: [
    {
      transition: 'parting on fatal.raised -> failed',
      why: 'A worker that leaves already keeps its first reason: later errors are not told.',
      path: [
        { type: 'probe.passed' },
        { type: 'job.joined' },
        { type: 'session.opened' },
        { type: 'announcement.landed' },
        { type: 'worker.stopping' },
      ],
      event: { type: 'fatal.raised' },
    },
  ],
};
