/** Reads that travel together: who goes with whom, and what becomes of them when the journey fails. */
import { describe, expect, test } from '@jest/globals';
import { LeaseholdError } from '../../../src/base/errors.ts';
import {
  type NotFound,
  type RangesAsked,
  type RangesFound,
  SharedReads,
} from '../../../src/store/etcd/shared-reads.ts';
import { virtualClock } from '../../../src/testing/index.ts';

type Answer = RangesFound | NotFound | LeaseholdError;

const header = {} as RangesFound['header'];

/** Answers each range with its own key, unless `answer` says otherwise for all of a journey. */
function world(answer: (asked: RangesAsked) => Answer | undefined = () => undefined) {
  const clock = virtualClock();
  const journeys: string[][] = [];
  const ask = (asked: RangesAsked): Promise<RangesFound | NotFound> => {
    journeys.push(asked.operations.map(keyOf));
    const given = answer(asked);
    if (given instanceof LeaseholdError) return Promise.reject(given);
    const found = {
      header,
      responses: asked.operations as unknown as RangesFound['responses'],
    };
    return Promise.resolve(given ?? found);
  };
  const reads = new SharedReads(ask, clock);
  const read = async (keys: readonly string[], patienceMs: number): Promise<unknown> => {
    const operations = keys.map((key) => ({ request_range: { key: Buffer.from(key) } }));
    try {
      const found = await reads.ask({ operations, timeoutMs: 5_000, isSingle: false }, patienceMs);
      return typeof found === 'string'
        ? found
        : (found.responses as unknown as RangesAsked['operations']).map(keyOf);
    } catch (error) {
      return (error as LeaseholdError).code;
    }
  };
  return { clock, journeys, reads, read };
}

function keyOf(operation: RangesAsked['operations'][number]): string {
  return String(operation.request_range!.key);
}

const isMany = ({ operations }: RangesAsked): boolean => operations.length > 1;

describe('reads that may wait', () => {
  test('reads that may wait - travel together when the first of them must, each with its own answer', async () => {
    const { clock, journeys, read } = world();
    const answers = Promise.all([read(['a', 'b'], 500), read(['c'], 200), read(['d'], 900)]);
    await clock.advance(199);
    expect(journeys).toEqual([]);
    await clock.advance(1);
    expect(journeys).toEqual([['a', 'b', 'c', 'd']]);
    expect(await answers).toEqual([['a', 'b'], ['c'], ['d']]);
    await clock.advance(10_000);
    expect(journeys).toHaveLength(1);
  });

  test('reads that may wait - are never more than etcd takes in one transaction', async () => {
    const { clock, journeys, read } = world();
    const keys = (count: number, of: string) =>
      Array.from({ length: count }, (_, index) => `${of}${index}`);
    const answers = Promise.all([
      read(keys(100, 'a'), 500),
      read(keys(28, 'b'), 500),
      read(['c'], 500),
    ]);
    await clock.advance(500);
    expect(journeys.map(({ length }) => length)).toEqual([128, 1]);
    await answers;
  });

  test.each([
    ['an answer that is too large', 'tooLarge' as const],
    ['a refusal', new LeaseholdError('E_STORE_DENIED', 'not for this user')],
  ])(
    'reads that may wait - ask alone after %s, which is one of theirs only',
    async (_what, fault) => {
      const { clock, journeys, read } = world((asked) =>
        isMany(asked) || keyOf(asked.operations[0]!) === 'b' ? fault : undefined,
      );
      const answers = Promise.all([read(['a'], 100), read(['b'], 100)]);
      await clock.advance(100);
      const own = typeof fault === 'string' ? fault : fault.code;
      expect(await answers).toEqual([['a'], own]);
      expect(journeys).toEqual([['a', 'b'], ['a'], ['b']]);
    },
  );

  test('reads that may wait - share an answer that did not come', async () => {
    const { clock, journeys, read } = world(
      () => new LeaseholdError('E_STORE_UNREACHABLE', 'nobody answers'),
    );
    const answers = Promise.all([read(['a'], 100), read(['b'], 100)]);
    await clock.advance(100);
    expect(await answers).toEqual(['E_STORE_UNREACHABLE', 'E_STORE_UNREACHABLE']);
    expect(journeys).toHaveLength(1);
  });

  test('reads that may wait - wait no longer when the store is closed', async () => {
    const { journeys, reads, read } = world();
    const answer = read(['a'], 60_000);
    reads.leave();
    expect(await answer).toEqual(['a']);
    expect(journeys).toEqual([['a']]);
  });
});
