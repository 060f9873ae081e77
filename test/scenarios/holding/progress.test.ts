import { describe, expect, test } from '@jest/globals';
import type { Grant } from '../../../src/index.ts';
import { transaction } from '../../support/faults.ts';
import { finalPlan, type HandledWorker, lost, watched } from '../../support/fleet.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

/** A worker whose grant the test holds in its own hands. */
async function granted(): Promise<{ a: HandledWorker; grant: Grant }> {
  await startFleet({ planner: finalPlan(['s1']) });
  const grants: Grant[] = [];
  const a = fleet.worker('a', async (grant) => {
    grants.push(grant);
    await lost(grant);
  });
  await fleet.until('the grant', () => grants.length === 1);
  return { a, grant: grants[0]! };
}

describe('progress', () => {
  test('a watermark that falls - is fatal: the commit and run() reject with E_WATERMARK_REGRESSION (R38)', async () => {
    const { a, grant } = await granted();
    await grant.commit({ watermark: 10 });
    // Below one that was accepted and not yet written counts too.
    a.client.when(transaction('commit')).delay(100, { times: 1 });
    const higher = watched(grant.commit({ watermark: 20 }));
    const lower = watched(grant.commit({ watermark: 19 }));
    await fleet.until('the end', () => a.run.state !== 'pending');
    expect(lower.error).toMatchObject({ code: 'E_WATERMARK_REGRESSION', kind: 'fatal' });
    expect((lower.error as Error).message).toMatch(/s1.*20.*19/);
    expect(a.run.error).toBe(lower.error);
    expect(higher.state).toBe('resolved');
    expect(fleet.split('s1')?.watermark).toBe('20');
  });

  test.each([
    ['a fraction', 1.5],
    ['NaN', NaN],
    ['an unsafe integer', 2 ** 53],
    ['a string', '1'],
    ['nothing', undefined],
    ['40 digits', 10n ** 39n],
  ])(
    'bad progress - %s is refused with E_PROGRESS_INVALID and leaves the grant open',
    async (_, watermark) => {
      const { a, grant } = await granted();
      const bad = { watermark: watermark as bigint };
      for (const attempt of [() => grant.commit(bad), () => grant.complete(bad)]) {
        await expect(attempt()).rejects.toMatchObject({
          code: 'E_PROGRESS_INVALID',
          kind: 'usage',
        });
      }
      expect(grant.lost.aborted).toBe(false);
      expect(fleet.split('s1')).toMatchObject({ watermark: null, status: 'runnable', owner: 'a' });
      await grant.commit({ watermark: 1 });
      await grant.complete({ watermark: 2 });
      expect(fleet.split('s1')).toMatchObject({ watermark: '2', status: 'completed' });
      expect(a.run.state).not.toBe('rejected');
    },
  );
});
