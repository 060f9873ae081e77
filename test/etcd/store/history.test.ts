/** The recorder sees every version, and what is wrong with a history is found. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { InstanceId, Nonce, SessionId, SplitId } from '../../../src/base/ids.ts';
import type { Epoch } from '../../../src/base/decimals.ts';
import type { Stamp } from '../../../src/records/codec.ts';
import {
  assignmentCodec,
  leaderCodec,
  leaseCodec,
  planCodec,
  type PlanRecord,
  presenceCodec,
  specCodec,
  splitCodec,
  type SplitRecord,
} from '../../../src/records/records.ts';
import { historyViolations } from '../../../src/testing/checks/history-checks.ts';
import type { HistoryEntry } from '../../../src/testing/checks/history-checks.ts';
import { startCluster } from '../support/server/cluster.ts';
import { encode } from '../support/server/gateway.ts';
import { gapsOf, startRecorder } from '../support/history/history.ts';
import type { RecordedEntry } from '../support/history/history.ts';
import { startEtcd } from '../support/server.ts';
import type { EtcdServer } from '../support/server.ts';

const ROOT = 'leasehold/job/';

describe('recorder', () => {
  let server: EtcdServer;
  beforeAll(async () => {
    server = await startEtcd();
  });
  afterAll(() => server.stop());

  test('recorder - started late sees every version of every key from the first revision', async () => {
    const { gateway } = server;
    const { id } = await gateway.grant(60);
    await gateway.put('a', '1');
    await gateway.put('a', '2', id);
    await gateway.put('é', 'ü', id);
    await gateway.delete('a');
    await gateway.put('a', '3');
    const recorder = startRecorder(gateway);
    await recorder.settled();
    await gateway.call('kv/txn', {
      success: ['b', 'c'].map((key) => ({
        request_put: { key: encode(key), value: encode('one transaction') },
      })),
    });
    await gateway.revoke(id);
    await recorder.settled();
    const session = String(id);
    expect(recorder.entries.map(({ key, value, session: on }) => [key, value, on])).toEqual([
      ['a', '1', null],
      ['a', '2', session],
      ['é', 'ü', session],
      ['a', null, null],
      ['a', '3', null],
      ['b', 'one transaction', null],
      ['c', 'one transaction', null],
      ['é', null, null],
    ]);
    expect(recorder.entries.map(({ revision }) => Number(revision))).toEqual([
      2, 3, 4, 5, 6, 7, 7, 8,
    ]);
    expect(await recorder.verify()).toEqual([]);
    await recorder.stop();
  });

  test('recorder - misses nothing and repeats nothing over restarts, under many writes', async () => {
    const recorder = startRecorder(server.gateway);
    await recorder.settled();
    const before = recorder.entries.length;
    const write = async (writer: number): Promise<void> => {
      for (let round = 0; round < 150; round += 1) {
        await server.gateway.put(`writer-${writer}`, String(round)).catch(() => undefined);
      }
    };
    const restart = async (): Promise<void> => {
      await server.restart();
      await server.restart();
    };
    await Promise.all([write(1), write(2), write(3), restart()]);
    await write(4);
    await recorder.settled();
    expect(recorder.gaps()).toEqual([]);
    expect(recorder.entries.length - before).toBeGreaterThan(150);
    expect(recorder.entries.at(-1)).toMatchObject({ key: 'writer-4', value: '149' });
    const { revision } = await server.gateway.position();
    expect(recorder.entries.at(-1)?.revision).toBe(String(revision));
    await recorder.stop();
  });

  test('recorder - reports what was compacted before it came', async () => {
    const { revision } = await server.gateway.position();
    await server.gateway.compact(revision);
    const recorder = startRecorder(server.gateway);
    await recorder.settled();
    expect(recorder.gaps().join('\n')).toContain(`2 to ${revision - 1n} were compacted away`);
    await recorder.stop();
  });

  test('recorder - takes a store that went back in time, or another one, for a new history', async () => {
    await server.restartEmpty();
    const recorder = startRecorder(server.gateway);
    await server.gateway.put('a', 'first');
    const snapshot = await server.snapshot();
    await server.gateway.put('a', 'undone');
    await recorder.settled();
    await server.restartFrom(snapshot);
    await server.gateway.put('b', 'later');
    await recorder.settled();
    await server.restartEmpty();
    await server.gateway.put('a', 'elsewhere');
    await recorder.settled();
    expect(recorder.gaps()).toEqual([]);
    const lives = [...new Set(recorder.entries.map(({ cluster }) => cluster))];
    expect(recorder.entries.map(({ cluster, value }) => [lives.indexOf(cluster), value])).toEqual([
      [0, 'first'],
      [0, 'undone'],
      [1, 'first'],
      [1, 'later'],
      [2, 'elsewhere'],
    ]);
    await recorder.stop();
  });

  test('recorder - of a cluster goes on at another member when its own is killed or stopped', async () => {
    const cluster = await startCluster();
    const recorder = startRecorder(cluster.gateways);
    const [one, two, three] = cluster.members;
    await two!.gateway.put('a', '1');
    await recorder.settled();
    await one!.kill();
    await cluster.leader();
    await two!.gateway.put('a', '2');
    await recorder.settled();
    await one!.restart();
    two!.pause();
    await cluster.leader();
    await three!.gateway.put('a', '3');
    await recorder.settled();
    two!.resume();
    await recorder.settled();
    expect(recorder.gaps()).toEqual([]);
    expect(recorder.entries.map(({ value }) => value)).toEqual(['1', '2', '3']);
    await recorder.stop();
    await cluster.stop();
  });

  test('recorder - a violation planted in the store is found', async () => {
    const { gateway } = server;
    const recorder = startRecorder(gateway);
    const { id } = await gateway.grant(60);
    for (const { key, value, session } of lawful().map((write) => write.entry)) {
      if (value !== null) await gateway.put(key, value, session === null ? undefined : id);
      else await gateway.delete(key);
    }
    expect(await recorder.verify()).toEqual([]);
    const late = { ...ownedByB(), watermark: '4' };
    await gateway.put(`${ROOT}splits/s`, splitCodec.encode(split(late), by('b', 9)));
    expect((await recorder.verify()).map(problemOf)).toEqual([
      'a new owner in an old epoch',
      'the watermark fell',
      'written after its completion',
    ]);
    await recorder.stop();
  });
});

describe('gaps', () => {
  const entry = (
    revision: number,
    key: string,
    version: number,
    createRevision = revision,
  ): RecordedEntry => ({
    cluster: 'c',
    key,
    value: version === 0 ? null : 'x',
    revision: String(revision),
    session: null,
    version: BigInt(version),
    createRevision: BigInt(createRevision),
  });
  const whole = [
    entry(2, 'a', 1),
    entry(3, 'a', 2, 2),
    entry(3, 'b', 1),
    entry(4, 'a', 0),
    entry(5, 'a', 1),
    entry(6, 'a', 2, 5),
  ];

  test('gaps - a whole history has none', () => {
    expect(gapsOf(whole)).toEqual([]);
  });

  test('gaps - a version left out is noticed by its revision, or by the next version of its key', () => {
    const noticed = whole.map((_, index) => gapsOf(whole.toSpliced(index, 1)).length > 0);
    // Unnoticed: the last versions of a life in a revision that shows another key (a revision comes whole), and the
    // newest revision, which `settled` waits for.
    expect(noticed).toEqual([true, false, false, true, true, false]);
    expect(gapsOf([...whole.toSpliced(2, 1), entry(7, 'b', 2, 3)])).toHaveLength(1);
  });

  test('gaps - a version told twice is noticed', () => {
    for (const index of whole.keys()) {
      expect(gapsOf(whole.toSpliced(index, 0, whole[index]!))).not.toEqual([]);
    }
  });
});

describe('violations', () => {
  test('violations - a lawful history has none, and every kind of record is in it', () => {
    expect(check(lawful())).toEqual([]);
    expect(new Set(lawful().map(({ entry }) => entry.key.split('/')[2]))).toEqual(
      new Set(['plan', 'leader', 'specs', 'splits', 'assign', 'workers', 'leases']),
    );
  });

  const plants: readonly [name: string, plant: () => Write[], found: string[]][] = [
    [
      'a watermark that falls',
      () => [...until('committed'), splitWrite(by('a', 20), { watermark: '4' })],
      ['the watermark fell'],
    ],
    [
      'a watermark that vanishes',
      () => [...until('committed'), splitWrite(by('a', 20), { watermark: null })],
      ['the watermark fell'],
    ],
    [
      'an epoch used by two owners',
      () => [
        ...until('committed'),
        splitWrite(by('b', 1), { owner: 'b' as InstanceId, nonce: nonce('b') }),
      ],
      ['a new owner in an old epoch', 'two owners in one epoch'],
    ],
    [
      'an epoch used by two processes of one name, with a release between',
      () => [
        ...until('committed'),
        splitWrite(by('a', 20), { owner: null }),
        splitWrite({ ...by('a', 21), nonce: 'other' }, { nonce: 'other' as Nonce }),
      ],
      ['a new owner in an old epoch', 'two owners in one epoch'],
    ],
    [
      'an epoch that falls',
      () => [...until('committed'), splitWrite(by('a', 20), { epoch: '0' as Epoch })],
      ['the epoch went by -1'],
    ],
    [
      'an epoch that skips',
      () => [...until('committed'), splitWrite(by('a', 20), { epoch: '3' as Epoch })],
      ['the epoch went by 2'],
    ],
    [
      'a commit by a process that does not own the split',
      () => [...until('committed'), splitWrite(by('b', 1), { watermark: '6' })],
      ['written by b, who does not lead'],
    ],
    [
      'a write after the completion',
      () => [...lawful(), splitWrite(by('b', 20), { ...ownedByB(), watermark: '9' })],
      ['a new owner in an old epoch', 'written after its completion'],
    ],
    [
      'a lease after the completion',
      () => [...lawful(), write('leases/s', lease(by('b', 20)), 'session')],
      ['leased after its completion'],
    ],
    ['a record that is deleted', () => [...lawful(), write('splits/s', null)], ['deleted']],
    [
      'the same write landed twice',
      () => [...until('committed'), splitWrite(by('a', 4), { watermark: '5' })],
      ['the same write landed twice'],
    ],
    [
      'a lease without a session',
      () => [...until('claimed'), write('leases/t', lease(by('a', 20)))],
      ['on the wrong session'],
    ],
    [
      'a presence without a session',
      () => [...until('claimed'), write('workers/b', presence('b', by('b', 1)))],
      ['on the wrong session'],
    ],
    [
      'a leader without a session',
      () => [write('leader', leader('b', 1, by('b', 1)))],
      ['on the wrong session'],
    ],
    [
      'a split on a session',
      () => [
        ...until('committed'),
        write('splits/s', splitCodec.encode(split({}), by('a', 20)), 'session'),
      ],
      ['on the wrong session'],
    ],
    [
      'an assignment of a deposed leader',
      () => [...lawful(), write('assign/a', assign(1, by('a', 20)))],
      ['written by a, who does not lead'],
    ],
    [
      'an assignment for an older generation by the leader of a newer one',
      () => [...lawful(), write('assign/a', assign(1, by('b', 20)))],
      ['written for generation 1 in generation 2'],
    ],
    [
      'an assignment while nobody leads',
      () => [...until('resigned'), write('assign/a', assign(1, by('a', 20)))],
      ['written by a, who does not lead'],
    ],
    [
      'a spec of a worker that does not lead',
      () => [...until('claimed'), write('specs/t', spec(by('b', 20)))],
      ['written by b, who does not lead'],
    ],
    [
      'a plan published by a deposed leader',
      () => [...lawful(), write('plan', plan({ generation: 2, planned: 7 }, by('a', 20)))],
      ['written by a, who does not lead'],
    ],
    [
      'a generation that falls',
      () => [...lawful(), write('plan', plan({ generation: 1 }, by('b', 20)))],
      ['the generation fell', 'written for generation 1 in generation 2'],
    ],
    [
      'a requeue that is forgotten',
      () => [
        ...lawful(),
        write('plan', plan({ generation: 2, requeues: 1 }, by('operator', 1))),
        write('plan', plan({ generation: 2 }, by('b', 20))),
      ],
      ['a requeue was forgotten'],
    ],
    [
      'two leaders in one generation',
      () => [
        ...lawful(),
        write('leader', null),
        write('leader', leader('a', 2, by('a', 20)), 'session'),
        write('assign/a', assign(2, by('a', 21))),
      ],
      ['two leaders in one generation'],
    ],
  ];

  test.each(plants)('violations - finds %s', (_name, plant, found) => {
    expect(check(plant()).map(problemOf)).toEqual(found);
  });

  test('violations - what was written by hand is known but not blamed', () => {
    const [byHand] = [splitWrite(by('x', 1), { watermark: '3', epoch: '7' as Epoch })];
    const writes = [
      ...until('committed'),
      { ...byHand, entry: { ...byHand.entry, isByHand: true } },
    ];
    expect(check(writes)).toEqual([]);
    expect(
      check([...writes, splitWrite(by('a', 20), { watermark: '2', epoch: '7' as Epoch })]),
    ).toHaveLength(1);
  });
});

/** A write of a history in the making; `mark` names the state after it. */
interface Write {
  readonly entry: Omit<HistoryEntry, 'revision' | 'cluster'>;
  readonly mark?: string;
  /** Written together with the one before. */
  readonly isSame?: boolean;
}

/** One job from its first worker to its end: led by a, then by b; one split, owned by a, then by b. */
function lawful(): Write[] {
  const open = { ...split({}), epoch: '0' as Epoch, owner: null, nonce: null, watermark: null };
  return [
    write('workers/a', presence('a', by('a', 1)), 'session'),
    write('plan', plan({}, by('a', 2))),
    write('leader', leader('a', 1, by('a', 3)), 'session'),
    same(write('plan', plan({ generation: 1 }, by('a', 3)))),
    write('specs/s', spec(by('a', 5))),
    same(write('splits/s', splitCodec.encode(open, by('a', 5)))),
    write('assign/a', assign(1, by('a', 6))),
    splitWrite(by('a', 3), { watermark: null }),
    { ...same(write('leases/s', lease(by('a', 3)), 'session')), mark: 'claimed' },
    { ...splitWrite(by('a', 4), { watermark: '5' }), mark: 'committed' },
    { ...write('leader', null), mark: 'resigned' },
    write('leases/s', null),
    write('leader', leader('b', 2, by('b', 1)), 'session'),
    same(write('plan', plan({ generation: 2 }, by('b', 1)))),
    write('assign/b', assign(2, by('b', 2))),
    splitWrite(by('b', 3), { ...ownedByB(), watermark: '5' }),
    same(write('leases/s', lease(by('b', 3)), 'session')),
    splitWrite(by('b', 4), { ...ownedByB(), owner: null, watermark: '8', status: 'completed' }),
    same(write('leases/s', null)),
  ];
}

function ownedByB(): Partial<SplitRecord> {
  return { owner: 'b' as InstanceId, nonce: nonce('b'), epoch: '2' as Epoch };
}

function until(mark: string): Write[] {
  const writes = lawful();
  return writes.slice(0, writes.findIndex((each) => each.mark === mark) + 1);
}

function check(writes: readonly Write[]): string[] {
  let revision = 1;
  return historyViolations(
    writes.map(({ entry, isSame }) => {
      if (isSame !== true) revision += 1;
      return { ...entry, revision: String(revision), cluster: 'c' };
    }),
  );
}

/** Without the place where it was found. */
function problemOf(found: string): string {
  return found.replace(/^.* @\d+: /, '');
}

function write(name: string, value: string | null, session: string | null = null): Write {
  return { entry: { key: `${ROOT}${name}`, value, session } };
}

function same(each: Write): Write {
  return { ...each, isSame: true };
}

function by(instance: string, count: number): Stamp {
  return { instance, nonce: nonce(instance), write: count };
}

function nonce(instance: string): Nonce {
  return `nonce-of-${instance}` as Nonce;
}

function split(fields: Partial<SplitRecord>): SplitRecord {
  return {
    epoch: '1' as Epoch,
    status: 'runnable',
    owner: 'a' as InstanceId,
    nonce: nonce('a'),
    attempts: 0,
    weight: 1,
    watermark: '5',
    state: null,
    lastFailure: null,
    ...fields,
  };
}

function splitWrite(stamp: Stamp, fields: Partial<SplitRecord>): Write {
  return write('splits/s', splitCodec.encode(split(fields), stamp));
}

function plan(fields: Partial<PlanRecord>, stamp: Stamp): string {
  return planCodec.encode(
    {
      fingerprint: 'f',
      generation: 0,
      finality: 'open',
      sealed: false,
      planned: 0,
      cursor: null,
      requeues: 0,
      verdict: null,
      ...fields,
    },
    stamp,
  );
}

function leader(owner: string, generation: number, stamp: Stamp): string {
  return leaderCodec.encode({ owner: owner as InstanceId, nonce: nonce(owner), generation }, stamp);
}

function assign(generation: number, stamp: Stamp): string {
  return assignmentCodec.encode({ generation, splits: ['s' as SplitId] }, stamp);
}

function spec(stamp: Stamp): string {
  return specCodec.encode({ weight: 1, descriptor: '' }, stamp);
}

function lease(stamp: Stamp): string {
  const { instance, nonce: writer } = stamp;
  const owner = { owner: instance as InstanceId, nonce: writer as Nonce };
  return leaseCodec.encode({ ...owner, epoch: '1' as Epoch, state: 'owned' }, stamp);
}

function presence(instance: string, stamp: Stamp): string {
  return presenceCodec.encode(
    {
      nonce: nonce(instance),
      session: '1' as SessionId,
      maxInFlight: 1,
      parting: false,
      refuses: [],
      version: '1',
      host: 'h',
    },
    stamp,
  );
}
