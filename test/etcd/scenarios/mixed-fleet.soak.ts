/**
 * Two versions in one fleet: a job goes on while every process is replaced by one of the other version, there and back.
 * A version that is released joins by its `npm pack` in test/fixtures and a row of `RELEASED`.
 */
import { afterEach, describe, expect, test } from '@jest/globals';
import type { Epoch } from '../../../src/base/decimals.ts';
import { jobKeys } from '../../../src/records/keys.ts';
import type { SplitRecord } from '../../../src/records/records.ts';
import { FleetHistory } from '../support/versions/fleet-history.ts';
import { MixedFleet } from '../support/versions/mixed-fleet.ts';
import { singlePass, tasksOf } from '../support/versions/task.ts';
import { later, present, released, type Version } from '../support/versions/version.ts';

let mixed: MixedFleet | undefined;
afterEach(async () => {
  await mixed?.close();
  mixed = undefined;
});

const RELEASED = ['0.1.0'];
/** What a fleet that is deployed may log as an error: nothing. */
const ALLOWED_ERRORS: readonly string[] = [];
/** What every split is worked on by one version alone. */
const STEPS_BETWEEN = 50;
const TASKS = tasksOf({ short: 20, long: 40 });

/** Deploys up and down again under load, and checks all that was said, stored and read. */
async function upAndDown(older: Version, newer: Version): Promise<FleetHistory> {
  const startMs = performance.now();
  mixed = await MixedFleet.create(TASKS);
  const { fleet } = mixed;
  await mixed.start(older);
  await mixed.goOn(STEPS_BETWEEN);
  await mixed.deploy(newer, ['kill', 'stop', 'stop', 'stop']);
  await mixed.goOn(STEPS_BETWEEN);
  await mixed.deploy(older, ['stop', 'stop', 'kill', 'stop']);
  await mixed.finish();
  expectEnds(mixed);
  expect(await fleet.verify()).toEqual([]);
  const history = await FleetHistory.of(fleet.recorder.entries, fleet.keys, [older, newer]);
  expectDone(mixed, history);
  expect(history.misnamed()).toEqual([]);
  expect(history.unreadable()).toEqual([]);
  expect(history.rewrites().problems).toEqual([]);

  const versions = [older.name, newer.name];
  const terms = history.terms();
  // Each version led, and while it did gave work to the other one.
  for (const version of versions) {
    const named = terms
      .filter((term) => term.version === version)
      .flatMap((term) => [...term.named]);
    expect([...new Set(named)].sort()).toEqual([...versions].sort());
  }
  const there = `${older.name} to ${newer.name}`;
  const handovers = history.handovers();
  expect(Object.keys(handovers).sort()).toEqual([there, `${newer.name} to ${older.name}`].sort());
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const shown = {
    commits: history.commits(),
    handovers,
    leaders: terms.map(({ version }) => version).join(', '),
    kept: history.rewrites().kept,
    warnings: countOf(fleet.timeLine.all({ what: 'warn' }).map(({ detail }) => eventIn(detail!))),
  };
  process.stdout.write(`mixed fleet ${there} and back: ${seconds} s, ${JSON.stringify(shown)}\n`);
  return history;
}

/** The name of what was logged. */
function eventIn(line: string): string {
  return line.split(':', 1)[0]!;
}

function countOf(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

/** Every process ended as it was told, or with the verdict, and none had anything to complain of. */
function expectEnds({ fleet: { timeLine }, processes }: MixedFleet): void {
  const stopped = processes.filter(({ end }) => end === 'stop');
  const killed = processes.filter(({ end }) => end === 'kill');
  const left = processes.filter(({ end }) => end === null);
  const details = (what: string): (string | undefined)[] =>
    timeLine.all({ what }).map(({ detail }) => detail);
  expect(details('finished')).toEqual(left.map(() => 'complete'));
  expect(details('failed')).toEqual(stopped.map(() => 'E_STOPPED'));
  expect(timeLine.all({ what: 'killed' })).toHaveLength(killed.length);
  expect(
    details('exited')
      .map((detail) => detail!.trim())
      .sort(),
  ).toEqual(
    [...killed.map(() => 'null SIGKILL'), ...[...stopped, ...left].map(() => '0 null')].sort(),
  );
  const errors = details('error').filter((line) => !ALLOWED_ERRORS.includes(eventIn(line!)));
  expect(errors).toEqual([]);
  expect(details('quarantined')).toEqual([]);
  expect(timeLine.overlaps()).toEqual([]);
}

/** Every split was completed once, by every step once, with what a single pass gives. */
function expectDone({ fleet }: MixedFleet, history: FleetHistory): void {
  expect(fleet.plan()?.verdict).toMatchObject({ kind: 'complete', completed: TASKS.length });
  for (const task of TASKS) {
    const stored = history.ofSplit(task.id);
    expect(stored.filter(({ status }) => status === 'completed')).toHaveLength(1);
    const { status, watermark, state } = stored.at(-1)!;
    expect({ status, watermark, state: Buffer.from(state!, 'base64').toString() }).toEqual({
      status: 'completed',
      watermark: String(task.steps),
      state: singlePass(task),
    });
    const steps = stored.map((record) => Number(record.watermark));
    expect(steps.filter((step, index) => step !== steps[index - 1])).toEqual(
      Array.from({ length: task.steps + 1 }, (_, step) => step),
    );
    // What a handler was promised is what itself has written, and nobody after it.
    const epochs = new Map([...stored].reverse().map((record) => [record.watermark, record.epoch]));
    const promised = fleet.timeLine.all({ what: 'committed', split: task.id });
    expect(
      promised.filter((moment) => epochs.get(String(moment.watermark)) !== moment.epoch),
    ).toEqual([]);
  }
}

describe.each(RELEASED)('a fleet of %s', (number) => {
  test('mixed fleet - goes over to the present version and back under load; nothing is lost, repeated or unreadable', async () => {
    await upAndDown(await released(number), await present());
  }, 900_000);

  test('mixed fleet - keeps what a later version stores beside the fields it knows', async () => {
    const older = await released(number);
    const history = await upAndDown(older, await later());
    // Of what is rewritten at all.
    const kept = history.rewrites().kept[older.name];
    expect(Object.keys(kept ?? {}).sort()).toEqual(['assign', 'plan', 'splits']);
  }, 900_000);
});

describe('what a mixed fleet is checked for', () => {
  const keys = jobKeys('test', 'job');
  const stamp = (nonce: string) => ({ instance: 'pod', nonce, write: 1 });
  const split: SplitRecord = {
    epoch: '1' as Epoch,
    status: 'runnable',
    owner: null,
    nonce: null,
    attempts: 0,
    weight: 1,
    watermark: null,
    state: null,
    lastFailure: null,
  };
  const record = { schema: 1, minReader: 1, ...split, by: stamp('a') };

  /** The history of puts of these values, after the presences of two processes: `a` of `now`, and `b` of `later`. */
  async function historyOf(...puts: readonly (readonly [string, object])[]): Promise<FleetHistory> {
    const versions = await Promise.all([present(), later()]);
    const presences = versions.map(({ name, number }, index) => {
      const nonce = 'ab'[index]!;
      return [
        `workers/${name}`,
        {
          ...{ schema: 1, minReader: 1, nonce, session: '1', maxInFlight: 1, parting: false },
          ...{ refuses: [], version: number, host: name, by: stamp(nonce) },
        },
      ] as const;
    });
    const entries = [...presences, ...puts].map(([key, value], index) => ({
      cluster: '1',
      key: `${keys.root}${key}`,
      value: JSON.stringify(value),
      revision: String(index + 2),
      session: null,
      version: 1n,
      createRevision: BigInt(index + 2),
    }));
    return FleetHistory.of(entries, keys, versions);
  }

  test('mixed fleet - its checks find nothing in a history that is right', async () => {
    const before = { ...record, schema: 2, later: [1], by: stamp('b') };
    const history = await historyOf(
      ['splits/s1', before],
      ['splits/s1', { ...before, epoch: '2', by: stamp('a') }],
    );
    expect(history.misnamed()).toEqual([]);
    expect(history.unreadable()).toEqual([]);
    expect(history.rewrites()).toEqual({ problems: [], kept: { now: { splits: 1 } } });
  });

  test.each([
    ['a value for newer readers alone', 'splits/s1', { ...record, minReader: 2 }],
    ['a field of another type', 'splits/s1', { ...record, attempts: 'none' }],
    ['a word that is not known', 'splits/s1', { ...record, status: 'resting' }],
    ['a key that is not known', 'notes/s1', record],
  ])('mixed fleet - its checks notice %s', async (_, key, value) => {
    const history = await historyOf([key, value]);
    // Both versions read alike here.
    expect(history.unreadable()).toHaveLength(2);
  });

  test.each([
    ['was dropped', { ...record, schema: 2 }],
    ['was changed', { ...record, schema: 2, later: [2] }],
    ['is there under an older schema', { ...record, later: [1] }],
    ['was written by nobody who is known', { ...record, schema: 2, later: [1], by: stamp('c') }],
  ])('mixed fleet - its checks notice that what a later version stored %s', async (_, after) => {
    const before = { ...record, schema: 2, later: [1], by: stamp('b') };
    const history = await historyOf(['splits/s1', before], ['splits/s1', after]);
    expect(history.rewrites().problems).toHaveLength(1);
  });

  test('mixed fleet - its checks notice a presence that says another version than its package', async () => {
    const presence = { nonce: 'a', host: 'now', version: '9.9.9', by: stamp('a') };
    expect((await historyOf(['workers/now', presence])).misnamed()).toHaveLength(1);
  });
});
