/** Runs made by hand, write by write: what the checks must accept, and what they must find. */
import type { Epoch } from '../../../src/base/decimals.ts';
import type { InstanceId, Nonce, SessionId, SplitId } from '../../../src/base/ids.ts';
import type { Stamp } from '../../../src/records/codec.ts';
import {
  assignmentCodec,
  leaderCodec,
  leaseCodec,
  type LeaseRecord,
  parkedCodec,
  planCodec,
  type PlanRecord,
  presenceCodec,
  type PresenceRecord,
  specCodec,
  splitCodec,
  type SplitRecord,
} from '../../../src/records/records.ts';
import type { AuditRecord } from '../../../src/store/memory.ts';
import { checkRun, type Evidence } from '../../../src/testing/checks/run-checks.ts';
import type { Happening } from '../../../src/testing/checks/time-line.ts';
import type { Broken } from '../../../src/testing/checks/time-line-checks.ts';

type Told<One> = One extends Happening ? Omit<One, 'atMs' | 'revision'> : never;

/** One key of one write. */
export interface Put {
  readonly name: string;
  readonly value: string | null;
  readonly session: string | null;
}

const PROMISES = { leaseMs: 3_000, stopMs: 2_000, rebalanceDelayMs: 5_000 };
const MAX_ATTEMPTS = 2;

/** A run in the making. Time moves a second a step. */
export class Story {
  readonly history: AuditRecord[] = [];
  readonly happenings: Happening[] = [];
  #cluster = 'c';
  #revision = 1;
  #atMs = 0;
  #writes = 100;

  /** Puts and deletes that landed together. */
  write(puts: readonly Put[], cause: AuditRecord['cause'] = 'batch'): void {
    this.#revision += 1;
    for (const { name, value, session } of puts) {
      this.history.push({
        cluster: this.#cluster,
        revision: String(this.#revision) as AuditRecord['revision'],
        atMs: this.#atMs,
        cause,
        key: `p/job/${name}`,
        value,
        session: session as SessionId | null,
        replaced: null,
      });
    }
  }

  tell(told: Told<Happening>): void {
    this.happenings.push({ atMs: this.#atMs, revision: this.#revision, ...told });
  }

  /** Another store takes the place of this one. */
  replace(): void {
    this.#cluster += "'";
    this.#revision = 1;
    this.tell({ kind: 'replaced', writes: this.history.length });
  }

  pass(ms: number): void {
    this.#atMs += ms;
  }

  /** A stamp that nobody has used. */
  by(instance: string): Stamp {
    this.#writes += 1;
    return { instance, nonce: `n${instance}`, write: this.#writes };
  }

  evidence(): Evidence {
    const { history, happenings } = this;
    return { history, happenings, promises: PROMISES, maxAttempts: MAX_ATTEMPTS };
  }
}

/** One step of a story, by name. */
export type Step = readonly [name: string, tell: (story: Story) => void];

/** Tells a story. */
export function storyOf(steps: readonly Step[]): Story {
  const story = new Story();
  for (const [, tell] of steps) {
    tell(story);
    story.pass(1_000);
  }
  return story;
}

/** What the checks find in a story. */
export function findings(steps: readonly Step[]): readonly Broken[] {
  return checkRun(storyOf(steps).evidence()).broken;
}

/** The lawful story with something else told in the place of a step. */
export function instead(name: string, tell: (story: Story) => void): Step[] {
  return lawful().map((step) => (step[0] === name ? [name, tell] : step));
}

/** The lawful story up to a step and with it, and then something else. */
export function after(name: string, tell: (story: Story) => void): Step[] {
  const steps = lawful();
  return [...steps.slice(0, steps.findIndex((step) => step[0] === name) + 1), ['planted', tell]];
}

export function without(name: string): Step[] {
  return lawful().filter((step) => step[0] !== name);
}

/** Two workers, two splits: `s` moves from a to b and completes, `q` fails twice and is quarantined. */
export function lawful(): Step[] {
  return [
    ['started', startBoth],
    ['present', (s) => s.write([presence('a', s.by('a')), presence('b', s.by('b'))])],
    ['planned', (s) => s.write([plan(s.by('a'), { generation: 0 })])],
    ['elected', elect],
    ['leads', (s) => s.tell({ kind: 'leads', process: 0 })],
    ['listed', (s) => listed(s, ['s', 'q'])],
    [
      'seeded',
      (s) =>
        s.write([
          spec('s', s.by('a')),
          split('s', s.by('a')),
          spec('q', s.by('a')),
          split('q', s.by('a')),
        ]),
    ],
    ['sealed', (s) => s.write([plan(s.by('a'), { sealed: true })])],
    ['assigned', (s) => s.write([assign('a', ['q', 's'], s.by('a'))])],
    ['claimed', (s) => claim(s, 's', 'a', 1)],
    [
      'granted',
      (s) =>
        s.tell({
          kind: 'granted',
          tenancy: 0,
          process: 0,
          split: 's',
          epoch: '1',
          watermark: null,
        }),
    ],
    ['asked', (s) => s.tell({ kind: 'asked', tenancy: 0, what: 'commit', watermark: '5' })],
    ['committed', (s) => s.write([split('s', s.by('a'), { ...held('a', 1), watermark: '5' })])],
    [
      'accepted',
      (s) =>
        s.tell({ kind: 'accepted', tenancy: 0, what: 'commit', watermark: '5', isLate: false }),
    ],
    ['marked', (s) => s.write([lease('s', s.by('a'), 1, { state: 'draining' })])],
    ['returned', (s) => s.tell({ kind: 'returned', tenancy: 0, error: null })],
    [
      'released',
      (s) =>
        s.write([
          split('s', s.by('a'), { ...held('a', 1), owner: null, watermark: '5' }),
          gone('leases/s'),
        ]),
    ],
    ['claimed by b', (s) => claim(s, 's', 'b', 2, { watermark: '5' })],
    [
      'granted to b',
      (s) =>
        s.tell({ kind: 'granted', tenancy: 1, process: 1, split: 's', epoch: '2', watermark: '5' }),
    ],
    ['asked by b', (s) => s.tell({ kind: 'asked', tenancy: 1, what: 'complete', watermark: '8' })],
    ['completed', complete],
    [
      'accepted by b',
      (s) =>
        s.tell({ kind: 'accepted', tenancy: 1, what: 'complete', watermark: '8', isLate: false }),
    ],
    ['returned by b', (s) => s.tell({ kind: 'returned', tenancy: 1, error: null })],
    ['q claimed', (s) => claim(s, 'q', 'a', 1)],
    ['q failed', (s) => s.write([split('q', s.by('a'), failed(1, 1)), gone('leases/q')])],
    ['q claimed again', (s) => claim(s, 'q', 'a', 2, failed(1, 1))],
    ['q quarantined', quarantine],
    ['verdict', (s) => s.write([plan(s.by('a'), { sealed: true, verdict: VERDICT })])],
    ['leads no more', (s) => s.tell({ kind: 'leadsNoMore', process: 0 })],
    ['left', (s) => s.tell({ kind: 'left', process: 0, verdict: TOLD, code: null })],
    ['b left', (s) => s.tell({ kind: 'left', process: 1, verdict: TOLD, code: null })],
  ];
}

export const VERDICT: PlanRecord['verdict'] = {
  kind: 'stalled',
  completed: 1,
  quarantined: 1,
  ids: ['q' as SplitId],
};
export const TOLD = {
  kind: 'stalled' as const,
  completed: 1,
  quarantined: 1,
  quarantinedIds: ['q'],
};

function startBoth(story: Story): void {
  story.tell({ kind: 'started', process: 0, instance: 'a', nonce: 'na' });
  story.tell({ kind: 'started', process: 1, instance: 'b', nonce: 'nb' });
}

/** The planner of a answers its leader. */
export function listed(
  story: Story,
  splits: readonly string[],
  fields: { generation?: number; finality?: 'open' | 'final' } = {},
): void {
  story.tell({ kind: 'planned', process: 0, generation: 1, splits, finality: 'final', ...fields });
}

function elect(story: Story): void {
  const stamp = story.by('a');
  story.write([leader('a', stamp, 1), plan(stamp, {})]);
}

export function complete(story: Story): void {
  const fields = { ...held('b', 2), owner: null, status: 'completed', watermark: '8' } as const;
  story.write([split('s', story.by('b'), fields), gone('leases/s')]);
}

function quarantine(story: Story): void {
  const stamp = story.by('a');
  const fields = { ...failed(2, 2), epoch: '3' as Epoch, status: 'quarantined' } as const;
  story.write([gone('leases/q'), parked('q', stamp), split('q', stamp, fields)]);
}

/** A claim: the record and its lease at once. */
export function claim(
  story: Story,
  id: string,
  owner: string,
  epoch: number,
  fields: Partial<SplitRecord> = {},
): void {
  const stamp = story.by(owner);
  const record = { ...fields, ...held(owner, epoch) };
  story.write([lease(id, stamp, epoch), split(id, stamp, record)]);
}

export function held(owner: string, epoch: number): Partial<SplitRecord> {
  return { owner: owner as InstanceId, nonce: `n${owner}` as Nonce, epoch: String(epoch) as Epoch };
}

/** The record of `q` after a failure in `epoch`. */
export function failed(epoch: number, attempts: number): Partial<SplitRecord> {
  const lastFailure = { reason: 'broken', by: 'a', epoch: String(epoch) as Epoch };
  return { ...held('a', epoch), owner: null, attempts, lastFailure };
}

export function split(id: string, stamp: Stamp, fields: Partial<SplitRecord> = {}): Put {
  const record: SplitRecord = {
    epoch: '0' as Epoch,
    status: 'runnable',
    owner: null,
    nonce: null,
    attempts: 0,
    weight: 1,
    watermark: null,
    state: null,
    lastFailure: null,
    ...fields,
  };
  return { name: `splits/${id}`, value: splitCodec.encode(record, stamp), session: null };
}

export function lease(
  id: string,
  stamp: Stamp,
  epoch: number,
  fields: Partial<LeaseRecord> = {},
  session = `session of ${stamp.instance}`,
): Put {
  const record: LeaseRecord = {
    owner: stamp.instance as InstanceId,
    nonce: stamp.nonce as Nonce,
    epoch: String(epoch) as Epoch,
    state: 'owned',
    ...fields,
  };
  return { name: `leases/${id}`, value: leaseCodec.encode(record, stamp), session };
}

export function presence(id: string, stamp: Stamp, fields: Partial<PresenceRecord> = {}): Put {
  const record: PresenceRecord = {
    nonce: stamp.nonce as Nonce,
    session: '1' as SessionId,
    maxInFlight: 8,
    parting: false,
    refuses: [],
    version: '0',
    host: '',
    ...fields,
  };
  return { name: `workers/${id}`, value: presenceCodec.encode(record, stamp), session: 'session' };
}

export function plan(stamp: Stamp, fields: Partial<PlanRecord>): Put {
  const record: PlanRecord = {
    fingerprint: 'f',
    generation: 1,
    finality: 'final',
    sealed: false,
    planned: 2,
    cursor: null,
    requeues: 0,
    verdict: null,
    ...fields,
  };
  return { name: 'plan', value: planCodec.encode(record, stamp), session: null };
}

export function leader(owner: string, stamp: Stamp, generation: number): Put {
  const record = { owner: owner as InstanceId, nonce: stamp.nonce as Nonce, generation };
  return { name: 'leader', value: leaderCodec.encode(record, stamp), session: 'leader session' };
}

export function spec(id: string, stamp: Stamp): Put {
  const value = specCodec.encode({ weight: 1, descriptor: '' }, stamp);
  return { name: `specs/${id}`, value, session: null };
}

export function assign(instance: string, splits: readonly string[], stamp: Stamp): Put {
  const record = { generation: 1, splits: splits as readonly SplitId[] };
  return {
    name: `assign/${instance}`,
    value: assignmentCodec.encode(record, stamp),
    session: null,
  };
}

export function parked(id: string, stamp: Stamp): Put {
  const value = parkedCodec.encode({ attempts: 2, reason: 'broken', owner: 'a' }, stamp);
  return { name: `parked/${id}`, value, session: null };
}

export function gone(name: string): Put {
  return { name, value: null, session: null };
}
