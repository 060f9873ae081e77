import { describe, expect, test } from '@jest/globals';
import { sharedProbe } from '../../../src/coordinator/link/probe.ts';

/** A step that ends when it is told to. */
function step() {
  let resolve: () => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<void>((resolved, rejected) => {
    resolve = resolved;
    reject = rejected;
  });
  return { promise, resolve, reject };
}

/** A probe whose two parts end when they are told to. */
function probe() {
  const passing = step();
  const ending = step();
  const counts = { runs: 0, rests: 0 };
  return {
    counts,
    passing,
    ending,
    run: async () => {
      counts.runs += 1;
      await passing.promise;
      return () => {
        counts.rests += 1;
        return ending.promise;
      };
    },
  };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('workers that share a client of a store', () => {
  test('workers that share a client - probe once, wait for it, and end it once', async () => {
    const probed = { client: {}, prefix: 'leasehold' };
    const [first, second] = [probe(), probe()];
    let hasSecond = false;
    const one = sharedProbe(probed, first.run);
    const two = sharedProbe(probed, second.run).then((rest) => {
      hasSecond = true;
      return rest;
    });
    await settled();
    expect(hasSecond).toBe(false);
    first.passing.resolve();
    const rests = [(await one)(), (await two)()];
    first.ending.resolve();
    await Promise.all(rests);
    await (
      await sharedProbe(probed, second.run)
    )();
    expect(first.counts).toEqual({ runs: 1, rests: 1 });
    expect(second.counts).toEqual({ runs: 0, rests: 0 });
  });

  test('workers that share a client - probe by themselves when the first probe fails', async () => {
    const probed = { client: {}, prefix: 'leasehold' };
    const [first, second] = [probe(), probe()];
    const one = sharedProbe(probed, first.run);
    const two = sharedProbe(probed, second.run);
    first.passing.reject(new Error('stopped'));
    await expect(one).rejects.toThrow('stopped');
    second.passing.resolve();
    second.ending.resolve();
    await (
      await two
    )();
    expect(second.counts).toEqual({ runs: 1, rests: 1 });
  });

  test('workers that share a client - probe by themselves when the end of the first one fails', async () => {
    const probed = { client: {}, prefix: 'leasehold' };
    const [first, second] = [probe(), probe()];
    first.passing.resolve();
    const one = await sharedProbe(probed, first.run);
    const two = await sharedProbe(probed, second.run);
    first.ending.reject(new Error('stopped'));
    await expect(one()).rejects.toThrow('stopped');
    second.passing.resolve();
    second.ending.resolve();
    await two();
    expect(second.counts).toEqual({ runs: 1, rests: 1 });
  });

  test.each([
    ['another client', { client: {}, prefix: 'leasehold' }],
    ['another prefix', { prefix: 'other' }],
  ])('workers of %s - probe by themselves', async (_what, other) => {
    const probed = { client: {}, prefix: 'leasehold' };
    const [first, second] = [probe(), probe()];
    first.passing.resolve();
    second.passing.resolve();
    await sharedProbe(probed, first.run);
    await sharedProbe({ ...probed, ...other }, second.run);
    expect(second.counts.runs).toBe(1);
  });
});
