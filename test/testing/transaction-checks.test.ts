import { describe, expect, test } from '@jest/globals';
import type { Epoch } from '../../src/base/decimals.ts';
import type { Nonce } from '../../src/base/ids.ts';
import {
  after,
  assign,
  claim,
  failed,
  findings,
  gone,
  held,
  instead,
  lawful,
  leader,
  lease,
  parked,
  plan,
  presence,
  spec,
  split,
  type Step,
  TOLD,
  VERDICT,
} from './support/story.ts';

describe('transaction checks', () => {
  test('transaction checks - a lawful run breaks nothing', () => {
    expect(findings(lawful())).toEqual([]);
  });

  const plants: readonly [name: string, steps: Step[], found: string][] = [
    [
      'a leader key that is overwritten',
      after('leads', (s) => s.write([leader('a', s.by('a'), 1)])),
      'overwritten (R19)',
    ],
    [
      'an election that leaves the generation alone',
      instead('elected', (s) => s.write([leader('a', s.by('a'), 1)])),
      'elected without raising the generation (R20)',
    ],
    [
      'an assignment written again as it was',
      after('assigned', (s) => s.write([assign('a', ['q', 's'], s.by('a'))])),
      'written again without a change (R25)',
    ],
    [
      'a spec that is written again',
      after('seeded', (s) => s.write([spec('s', s.by('a'))])),
      'written again (R21)',
    ],
    [
      'a presence of somebody else',
      after('present', (s) => s.write([presence('a', s.by('b'))])),
      'written by somebody else',
    ],
    [
      'a worker that comes back after parting',
      after('present', (s) => {
        s.write([presence('a', s.by('a'), { parting: true })]);
        s.write([presence('a', s.by('a'))]);
      }),
      'comes back after its parting (R16)',
    ],
    [
      'a twin that takes its name back',
      after('claimed', (s) => {
        const twin = { ...s.by('a'), nonce: 'twin' };
        s.write([presence('a', twin, { nonce: 'twin' as Nonce })]);
        s.write([presence('a', s.by('a'))]);
      }),
      'a process that was there before overwrites another one (R14)',
    ],
    [
      'a verdict on an unsealed plan',
      instead('verdict', (s) =>
        s.write([plan(s.by('a'), { finality: 'open', sealed: true, verdict: VERDICT })]),
      ),
      'a verdict on an unsealed plan (R22)',
    ],
    [
      'a broken seal',
      after('sealed', (s) => s.write([plan(s.by('a'), {})])),
      'the seal was broken',
    ],
    [
      'a verdict while paused',
      instead('verdict', (s) => {
        s.write([{ name: 'control/paused', value: '{}', session: null }]);
        s.write([plan(s.by('a'), { sealed: true, verdict: VERDICT })]);
      }),
      'a verdict while paused (R23)',
    ],
    [
      'a verdict while a split can run',
      after('committed', (s) => s.write([plan(s.by('a'), { sealed: true, verdict: VERDICT })])),
      'a verdict while q, s can run (R23)',
    ],
    [
      'a verdict that counts wrongly',
      instead('verdict', (s) => {
        const verdict = { kind: 'complete', completed: 2, quarantined: 0, ids: [] } as const;
        s.write([plan(s.by('a'), { sealed: true, verdict })]);
      }),
      'a verdict of {"kind":"complete"',
    ],
    [
      'a verdict that is changed',
      after('verdict', (s) => s.write([plan(s.by('a'), { sealed: true })])),
      'a verdict was changed (R23)',
    ],
    [
      'a split that is seeded with an owner',
      after('leads', (s) => s.write([split('t', s.by('a'), held('a', 0))])),
      'seeded with an owner',
    ],
    [
      'a split that is seeded at an epoch',
      after('leads', (s) => s.write([split('t', s.by('a'), { epoch: '4' as Epoch })])),
      'seeded at an epoch',
    ],
    [
      'a claim for somebody else',
      instead('claimed', (s) => {
        s.write([lease('s', s.by('b'), 1), split('s', s.by('a'), held('b', 1))]);
      }),
      'claimed for somebody else',
    ],
    [
      'a claim that changes the progress',
      instead('claimed by b', (s) => claim(s, 's', 'b', 2, { watermark: '6' })),
      'a claim changed the progress',
    ],
    [
      'a claim without its lease',
      instead('claimed', (s) => s.write([split('s', s.by('a'), held('a', 1))])),
      'claimed without its lease (T7)',
    ],
    [
      'a claim under the lease of another',
      after('committed', (s) => claim(s, 's', 'b', 2, { watermark: '5', attempts: 1 })),
      'claimed under the lease of a (T7)',
    ],
    [
      'a claim under the very same session',
      after('committed', (s) => claim(s, 's', 'a', 2, { watermark: '5', attempts: 1 })),
      'claimed again under the same session',
    ],
    [
      'a claim of a released split that spends an attempt',
      instead('claimed by b', (s) => claim(s, 's', 'b', 2, { watermark: '5', attempts: 1 })),
      'a claim took the attempts from 0 to 1 (R31)',
    ],
    [
      'a takeover that spends no attempt',
      after('committed', (s) => {
        s.write([gone('leases/s')], 'sessionEnd');
        claim(s, 's', 'b', 2, { watermark: '5' });
      }),
      'a claim took the attempts from 0 to 0 (R31)',
    ],
    [
      'a claim at the cap',
      after('q claimed again', (s) => {
        s.write([gone('leases/q')], 'sessionEnd');
        claim(s, 'q', 'b', 3, { ...failed(1, 1), attempts: 2 });
      }),
      'claimed at the cap (R28)',
    ],
    [
      'a requeue that leaves the plan alone',
      after('q quarantined', (s) => {
        s.write([
          split('q', s.by('operator'), { ...failed(2, 2), epoch: '3' as Epoch, attempts: 0 }),
          gone('parked/q'),
        ]);
      }),
      'requeued without a word in the plan (R23)',
    ],
    [
      'a quarantine of what nobody owned',
      after('q failed', (s) => {
        const stamp = s.by('a');
        s.write([
          parked('q', stamp),
          split('q', stamp, { ...failed(1, 2), epoch: '2' as Epoch, status: 'quarantined' }),
        ]);
      }),
      'quarantined though nobody owned it',
    ],
    [
      'a quarantine under a lease',
      after('claimed by b', (s) => {
        const stamp = s.by('a');
        const record = {
          ...failed(2, 2),
          nonce: 'nb' as Nonce,
          epoch: '3' as Epoch,
          watermark: '5',
        };
        s.write([
          parked('s', stamp),
          split('s', stamp, { ...record, status: 'quarantined' }),
          gone('leases/s'),
        ]);
      }),
      'quarantined under a lease (T12)',
    ],
    [
      'a quarantine that spends two attempts',
      instead('q quarantined', (s) => {
        const stamp = s.by('a');
        s.write([
          gone('leases/q'),
          parked('q', stamp),
          split('q', stamp, { ...failed(2, 3), epoch: '3' as Epoch, status: 'quarantined' }),
        ]);
      }),
      'a quarantine took the attempts from 1 to 3 (R28)',
    ],
    [
      'a quarantine before the cap',
      instead('q failed', (s) => {
        const stamp = s.by('a');
        s.write([
          gone('leases/q'),
          parked('q', stamp),
          split('q', stamp, { ...failed(1, 1), epoch: '2' as Epoch, status: 'quarantined' }),
        ]);
      }),
      'quarantined after 1 attempts (R28)',
    ],
    [
      'a quarantine that leaves the lease',
      instead('q quarantined', (s) => {
        const stamp = s.by('a');
        s.write([
          parked('q', stamp),
          split('q', stamp, { ...failed(2, 2), epoch: '3' as Epoch, status: 'quarantined' }),
        ]);
      }),
      'quarantined, and its lease stays',
    ],
    [
      'a failure that leaves the lease',
      instead('q failed', (s) => s.write([split('q', s.by('a'), failed(1, 1))])),
      'failed, and its lease stays',
    ],
    [
      'a failure at the cap that is not quarantined',
      instead('q quarantined', (s) =>
        s.write([gone('leases/q'), split('q', s.by('a'), failed(2, 2))]),
      ),
      'failed at the cap, and not quarantined',
    ],
    [
      'a commit that changes the attempts without rising',
      after('claimed', (s) => s.write([split('s', s.by('a'), { ...held('a', 1), attempts: 1 })])),
      'a commit took the attempts from 0 to 1 (R31)',
    ],
    [
      'a rising commit that keeps the attempts',
      after('q failed', (s) => {
        claim(s, 'q', 'a', 2, failed(1, 1));
        s.write([split('q', s.by('a'), { ...failed(1, 1), ...held('a', 2), watermark: '1' })]);
      }),
      'a commit took the attempts from 1 to 1 (R31)',
    ],
    [
      'a release that leaves the lease',
      instead('released', (s) =>
        s.write([split('s', s.by('a'), { ...held('a', 1), owner: null, watermark: '5' })]),
      ),
      'a release, and its lease stays',
    ],
    [
      'a mark by another worker',
      instead('marked', (s) =>
        s.write([
          {
            ...lease('s', s.by('a'), 1),
            value: lease('s', s.by('b'), 1, { owner: 'a' as never }).value,
          },
        ]),
      ),
      'marked by another',
    ],
    [
      'a lease that no claim has put',
      after('seeded', (s) => s.write([lease('s', s.by('a'), 1)])),
      'a lease without a claim',
    ],
    [
      'a mark under another session',
      instead('marked', (s) => s.write([lease('s', s.by('a'), 1, {}, 'another')])),
      'a mark moved the lease to another session (R32)',
    ],
    [
      'a mark of another tenancy',
      instead('marked', (s) => s.write([lease('s', s.by('a'), 2)])),
      'a mark of another tenancy (R32)',
    ],
    [
      'a change that is none of the protocol',
      after('committed', (s) =>
        s.write([split('s', s.by('a'), { ...held('a', 2), owner: null, watermark: '5' })]),
      ),
      'no transaction of the protocol: (1 runnable a attempts 0 at 5) to (2 runnable null attempts 0 at 5)',
    ],
    [
      'a parked split that can run',
      after('claimed', (s) => s.write([parked('s', s.by('a'))])),
      'runnable, and parked (R28)',
    ],
    [
      'a lease that outlives its tenancy',
      after('q claimed', (s) => s.write([lease('s', s.by('b'), 2)])),
      'the lease of b at epoch 2 stands on another tenancy',
    ],
  ];

  test.each(plants)('transaction checks - find %s', (_name, steps, found) => {
    expect(
      findings(steps)
        .map(({ text }) => text)
        .join('\n'),
    ).toContain(found);
  });

  test('transaction checks - let an operator requeue, and a claim take its own lease over', () => {
    const requeued = after('verdict', (s) => {
      const stamp = s.by('operator');
      s.write([
        gone('parked/q'),
        plan(stamp, { sealed: true, requeues: 1 }),
        split('q', stamp, { ...failed(2, 0), epoch: '3' as Epoch }),
      ]);
    });
    const reclaimed = after('claimed', (s) => {
      const stamp = s.by('a');
      const lost = s.by('a');
      s.write([
        lease('s', stamp, 2, {}, 'next session'),
        split('s', lost, { ...held('a', 2), attempts: 1 }),
      ]);
    });
    expect(findings(requeued)).toEqual([]);
    expect(findings(reclaimed)).toEqual([]);
    expect(TOLD.quarantinedIds).toEqual(VERDICT!.ids);
  });
});
