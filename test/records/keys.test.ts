import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { InstanceId, SplitId } from '../../src/base/ids.ts';
import { jobKeys, KEY_PREFIXES, parseKey } from '../../src/records/keys.ts';
import { anyId } from './arbitraries.ts';

const keys = jobKeys('leasehold/prod', 'orders');
const anyKeys = fc.tuple(fc.stringMatching(/^[a-z]{1,5}(\/[a-z.]{1,5})?$/), anyId);

describe('keys', () => {
  test('keys - each reads back as what it was made of', () => {
    fc.assert(
      fc.property(anyKeys, anyId, ([prefix, job], id) => {
        const made = jobKeys(prefix, job);
        const split = id as SplitId;
        const instance = id as InstanceId;
        expect(parseKey(made, made.plan)).toEqual({ kind: 'plan' });
        expect(parseKey(made, made.leader)).toEqual({ kind: 'leader' });
        expect(parseKey(made, made.paused)).toEqual({ kind: 'paused' });
        for (const kind of ['spec', 'split', 'lease', 'parked'] as const) {
          expect(parseKey(made, made[kind](split))).toEqual({ kind, split });
        }
        for (const kind of ['assignment', 'presence', 'cordoned', 'drained'] as const) {
          expect(parseKey(made, made[kind](instance))).toEqual({ kind, instance });
        }
      }),
      { numRuns: 300 },
    );
  });

  test('keys - no key of one split is a beginning of a key of another', () => {
    fc.assert(
      fc.property(anyId, anyId, (a, b) => {
        fc.pre(a !== b);
        expect(keys.split(b as SplitId).startsWith(`${keys.split(a as SplitId)}/`)).toBe(false);
        expect(keys.split(a as SplitId)).not.toBe(keys.split(b as SplitId));
      }),
    );
    expect(keys.split('a' as SplitId)).toBe('leasehold/prod/orders/splits/a');
    expect(parseKey(keys, keys.split('ab' as SplitId))).toEqual({ kind: 'split', split: 'ab' });
  });

  test('keys - a job whose name begins with the name of another is not seen by it', () => {
    const longer = jobKeys('leasehold/prod', 'orders-2');
    expect(longer.plan.startsWith(keys.root)).toBe(false);
    expect(parseKey(keys, longer.plan)).toEqual({ kind: 'alien' });
    expect(parseKey(jobKeys('leasehold', 'prod'), keys.plan)).toEqual({ kind: 'alien' });
  });

  test('keys - the listed prefixes are where the keys are', () => {
    const [split, instance] = ['s' as SplitId, 'w' as InstanceId];
    const made = {
      specs: keys.spec(split),
      splits: keys.split(split),
      leases: keys.lease(split),
      parked: keys.parked(split),
      assign: keys.assignment(instance),
      workers: keys.presence(instance),
      control: keys.cordoned(instance),
    };
    for (const [kind, key] of Object.entries(made)) {
      const prefix = KEY_PREFIXES[kind as keyof typeof KEY_PREFIXES];
      expect(key.startsWith(keys.root + prefix)).toBe(true);
    }
    expect(keys.paused.startsWith(keys.root + KEY_PREFIXES.control)).toBe(true);
  });

  test('keys - whatever has another shape is alien', () => {
    const { root } = keys;
    const aliens = [
      '',
      root,
      'plan',
      `${root}plan/`,
      `${root}plan/x`,
      `${root}splits`,
      `${root}splits/`,
      `${root}splits/a/b`,
      `${root}splits//a`,
      `${root}splits/..`,
      `${root}splits/../plan`,
      `${root}splits/a b`,
      `${root}splits/é`,
      `${root}splits/${'x'.repeat(129)}`,
      `${root}splits/a\n`,
      `${root}control`,
      `${root}control/`,
      `${root}control/cordoned`,
      `${root}control/cordoned/`,
      `${root}control/cordoned/a/b`,
      `${root}control/paused/x`,
      `${root}control/frozen/x`,
      `${root}control/__proto__/x`,
      `${root}control/constructor/x`,
      `${root}__proto__/x`,
      `${root}constructor`,
      `${root}toString/x`,
      `${root}probe/w1/n1`,
      `${root}Splits/a`,
      `/${root}plan`,
    ];
    for (const key of aliens) expect(parseKey(keys, key)).toEqual({ kind: 'alien' });
  });

  test('keys - no text makes reading a key throw, and none is read as two things', () => {
    fc.assert(
      fc.property(fc.string(), fc.boolean(), (text, isInside) => {
        const key = isInside ? keys.root + text : text;
        const name = parseKey(keys, key);
        if (name.kind === 'alien') return;
        const again =
          'split' in name
            ? keys[name.kind](name.split)
            : 'instance' in name
              ? keys[name.kind](name.instance)
              : keys[name.kind];
        expect(again).toBe(key);
      }),
      { numRuns: 1_000 },
    );
  });

  test('keys - the probe of a process is no record', () => {
    const key = keys.probe('w1' as InstanceId, 'n1');
    expect(key).toBe('leasehold/prod/orders/probe/w1/n1');
    expect(parseKey(keys, key)).toEqual({ kind: 'alien' });
  });
});
