/** The contract of `transact`. */
import { expect, test } from '@jest/globals';
import { ABSENT, nextRevision, type Revision } from '../../../src/base/decimals.ts';
import { InvariantViolation } from '../../../src/base/errors.ts';
import { BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, type Compare } from '../../../src/store/port.ts';
import type { Contract } from './harness.ts';
import {
  batch,
  CALL,
  neverHolds,
  newest,
  put,
  readOne,
  readPage,
  sessionNamed,
  tryTxn,
  tryTxns,
  write,
} from '../support.ts';

export function testTransactions(contract: Contract): void {
  testRevisions(contract);
  testCompares(contract);
  testSiblings(contract);
  testLimits(contract);
}

function testRevisions({ harness, key }: Contract): void {
  test('store - all writes of a batch share one revision, the one after the last', async () => {
    const { store } = harness();
    const before = await newest(store);
    const outcome = await tryTxns(store, [
      { writes: [put(key('a'), '1'), put(key('b'), '1')] },
      { writes: [put(key('c'), '1')] },
    ]);

    const revision = nextRevision(before);
    expect(outcome).toEqual({
      kind: 'tried',
      revision,
      outcomes: [
        { kind: 'committed', revision },
        { kind: 'committed', revision },
      ],
    });
    const { entries } = await readPage(store, { prefix: key('') });
    expect(entries.map((entry) => entry.modRevision)).toEqual([revision, revision, revision]);
    expect(await newest(store)).toBe(revision);
  });

  test('store - a batch in which nothing is written keeps the revision', async () => {
    const { store } = harness();
    const revision = await write(store, put(key('a'), '1'));
    const compares = [neverHolds(key('a'))];

    const conflict = { kind: 'conflict', found: [], revision };
    expect(await tryTxn(store, { compares, writes: [put(key('a'), '2')] })).toEqual(conflict);
    expect(await tryTxn(store, { writes: [{ delete: key('none') }] })).toEqual({
      kind: 'committed',
      revision,
    });
    expect(await store.transact(batch([{ writes: [put(key('a'), '3')] }], compares), CALL)).toEqual(
      { kind: 'guardFailed', revision },
    );
    expect(await tryTxns(store, [])).toEqual({ kind: 'tried', outcomes: [], revision });
    expect(await newest(store)).toBe(revision);
    expect((await readOne(store, key('a')))?.value).toBe('1');
  });

  test('store - writing the value that is there already is a write', async () => {
    const { store } = harness();
    const first = await write(store, put(key('a'), 'same'));
    const second = await write(store, put(key('a'), 'same'));
    expect(second).toBe(nextRevision(first));
    expect((await readOne(store, key('a')))?.modRevision).toBe(second);
  });
}

function testCompares({ harness, key, open }: Contract): void {
  test('store - an absent key has revisions 0 and no session', async () => {
    const { store } = harness();
    const compares: Compare[] = [
      { key: key('a'), target: 'createRevision', equals: ABSENT },
      { key: key('a'), target: 'modRevision', equals: ABSENT },
      { key: key('a'), target: 'session', equals: null },
    ];
    const create = { compares, writes: [put(key('a'), '1')] };
    expect((await tryTxn(store, create)).kind).toBe('committed');
    expect((await tryTxn(store, create)).kind).toBe('conflict');
    await write(store, { delete: key('a') });
    expect((await tryTxn(store, create)).kind).toBe('committed');
  });

  test('store - each target of a compare is judged by itself', async () => {
    const { store } = harness();
    const [mine] = await open('mine');
    const createRevision = await write(store, put(key('a'), '1', mine));
    const modRevision = await write(store, put(key('a'), '2', mine));
    const judge = async (compare: Compare) => (await tryTxn(store, { compares: [compare] })).kind;

    const revisions: [Compare['target'], Revision, string][] = [
      ['createRevision', createRevision, 'committed'],
      ['createRevision', modRevision, 'conflict'],
      ['createRevision', ABSENT, 'conflict'],
      ['modRevision', modRevision, 'committed'],
      ['modRevision', createRevision, 'conflict'],
      ['modRevision', ABSENT, 'conflict'],
    ];
    for (const [target, equals, kind] of revisions) {
      expect([target, equals, await judge({ key: key('a'), target, equals } as Compare)]).toEqual([
        target,
        equals,
        kind,
      ]);
    }
    expect(await judge({ key: key('a'), target: 'session', equals: mine! })).toBe('committed');
    expect(await judge({ key: key('a'), target: 'session', equals: null })).toBe('conflict');
    const foreign = sessionNamed('foreign');
    expect(await judge({ key: key('a'), target: 'session', equals: foreign })).toBe('conflict');
  });

  test('store - one compare that fails is enough', async () => {
    const { store } = harness();
    const holds: Compare = { key: key('a'), target: 'modRevision', equals: ABSENT };
    const writes = [put(key('a'), '1')];
    const outcome = await tryTxn(store, { compares: [holds, neverHolds(key('b'))], writes });
    expect(outcome.kind).toBe('conflict');
    expect(await readOne(store, key('a'))).toBeNull();
  });

  test('store - a conflict shows the keys asked for, in that order, null where absent', async () => {
    const { store } = harness();
    const revision = await write(store, put(key('a'), '1'), put(key('b'), '2'));
    const outcome = await tryTxn(store, {
      compares: [neverHolds(key('a'))],
      writes: [put(key('a'), 'never')],
      onConflict: [key('b'), key('none'), key('a')],
    });
    const entry = { createRevision: revision, modRevision: revision, session: null };
    expect(outcome).toEqual({
      kind: 'conflict',
      found: [
        { key: key('b'), value: '2', ...entry },
        null,
        { key: key('a'), value: '1', ...entry },
      ],
      revision,
    });
  });
}

function testSiblings({ harness, key }: Contract): void {
  test('store - every transaction of a batch has its own answer', async () => {
    const { store } = harness();
    const seen = await write(store, put(key('a'), '1'), put(key('b'), '1'), put(key('c'), '1'));
    await write(store, put(key('b'), '2'));
    const bump = (name: string) => ({
      compares: [{ key: key(name), target: 'modRevision', equals: seen }] as const,
      writes: [put(key(name), 'bumped')],
      onConflict: [key(name)],
    });

    const { outcomes, revision } = await tryTxns(store, ['a', 'b', 'c'].map(bump));
    expect(outcomes.map(({ kind }) => kind)).toEqual(['committed', 'conflict', 'committed']);
    expect(outcomes.map((outcome) => outcome.revision)).toEqual([revision, revision, revision]);
    expect(outcomes[1]).toMatchObject({ found: [{ value: '2' }] });
    const { entries } = await readPage(store, { prefix: key('') });
    expect(entries.map(({ value }) => value)).toEqual(['bumped', '2', 'bumped']);
  });

  test('store - when the guard fails nothing is tried', async () => {
    const { store } = harness();
    const revision = await write(store, put(key('leader'), 'other'));
    const guard: Compare[] = [
      { key: key('leader'), target: 'createRevision', equals: revision },
      { key: key('leader'), target: 'modRevision', equals: ABSENT },
    ];
    const outcome = await store.transact(batch([{ writes: [put(key('a'), '1')] }], guard), CALL);
    expect(outcome).toEqual({ kind: 'guardFailed', revision });
    expect(await readOne(store, key('a'))).toBeNull();

    await tryTxn(store, { writes: [put(key('a'), '1')] }, guard.slice(0, 1));
    expect((await readOne(store, key('a')))?.value).toBe('1');
  });

  test('store - all compares of a batch see the state before it', async () => {
    const { store } = harness();
    const absent: Compare = { key: key('a'), target: 'modRevision', equals: ABSENT };
    const { outcomes } = await tryTxns(store, [
      { writes: [put(key('a'), '1')] },
      { compares: [absent], writes: [put(key('b'), '1')] },
    ]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['committed', 'committed']);
  });

  test('store - a read on conflict sees what the transactions before it wrote, not those after', async () => {
    const { store } = harness();
    const conflict = { compares: [neverHolds(key('z'))], onConflict: [key('a'), key('b')] };
    const { outcomes } = await tryTxns(store, [
      { writes: [put(key('a'), 'before')] },
      conflict,
      { writes: [put(key('b'), 'after')] },
    ]);
    expect(outcomes[1]).toMatchObject({ kind: 'conflict', found: [{ value: 'before' }, null] });
  });
}

function testLimits({ harness, key }: Contract): void {
  const once = (name: string, compares: readonly Compare[] = []) => ({
    compares,
    writes: [put(key(name), '1')],
  });

  test('store - a key written twice in one batch is refused, whatever the compares say', async () => {
    const { store } = harness();
    const before = await write(store, put(key('there'), '1'));
    const conflict = [neverHolds(key('a'))];
    const twice = [
      [once('a'), once('a')],
      [once('a', conflict), once('a')],
      [once('a', conflict), once('a', conflict)],
      [once('a'), { writes: [{ delete: key('a') }] }],
      [{ writes: [{ delete: key('there') }] }, once('there')],
      [{ writes: [{ delete: key('there') }] }, { writes: [{ delete: key('there') }] }],
      [{ writes: [put(key('a'), '1'), put(key('a'), '2')] }],
    ];
    for (const txns of twice) {
      await expect(store.transact(batch(txns), CALL)).rejects.toThrow(InvariantViolation);
    }
    expect(await newest(store)).toBe(before);
  });

  test('store - a batch may have 128 operations: the outer count plus the largest inner one', async () => {
    const { store } = harness();
    const singles = (count: number) => Array.from({ length: count }, (_, i) => once(`s${i}`));
    const compares = Array.from({ length: 3 }, (_, i) => neverHolds(key(`c${i}`)));
    const most = BATCH_OPERATIONS_MAX - 1;

    expect((await tryTxns(store, singles(most))).outcomes).toHaveLength(most);
    const tooMany = [
      singles(most + 1),
      [...singles(most - 3), { compares }, { onConflict: ['a', 'b'].map(key) }],
      [...singles(most - 3), { onConflict: ['a', 'b', 'c', 'd'].map(key) }],
      [{ writes: Array.from({ length: most + 1 }, (_, i) => put(key(`w${i}`), '1')) }],
    ];
    for (const txns of tooMany) {
      await expect(store.transact(batch(txns), CALL)).rejects.toThrow(InvariantViolation);
    }
    const guard = Array.from({ length: most + 1 }, (_, i) => neverHolds(key(`g${i}`)));
    await expect(store.transact(batch([once('a')], guard), CALL)).rejects.toThrow(
      InvariantViolation,
    );
    const fits = [...singles(most - 3), { compares }];
    expect((await tryTxns(store, fits)).outcomes.at(-1)?.kind).toBe('conflict');
  });

  test('store - a batch may have 1 MiB', async () => {
    const { store } = harness();
    const room = BATCH_BYTES_MAX - Buffer.byteLength(key('big'));
    await write(store, put(key('big'), 'x'.repeat(room)));
    expect((await readOne(store, key('big')))?.value).toHaveLength(room);

    const tooBig = batch([{ writes: [put(key('big'), 'x'.repeat(room + 1))] }]);
    await expect(store.transact(tooBig, CALL)).rejects.toThrow(InvariantViolation);
    const wide = batch([{ writes: [put(key('big'), '€'.repeat(room / 2))] }]);
    await expect(store.transact(wide, CALL)).rejects.toThrow(InvariantViolation);
  });

  test('store - a transaction may read four keys on conflict', async () => {
    const { store } = harness();
    const compares = [neverHolds(key('a'))];
    const onConflict = ['a', 'b', 'c', 'd', 'e'].map(key);
    const found = { found: [null, null, null, null] };
    expect(await tryTxn(store, { compares, onConflict: onConflict.slice(1) })).toMatchObject(found);
    const tooMany = store.transact(batch([{ compares, onConflict }]), CALL);
    await expect(tooMany).rejects.toThrow(InvariantViolation);
  });
}
