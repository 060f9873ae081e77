/** Every codec: what is written is read back, what a newer version wrote survives, and nothing a store holds throws. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type Decoded,
  type RecordBase,
  sameStamp,
  SCHEMA,
  type Stamp,
} from '../../src/records/codec.ts';
import { anyStamp, KINDS } from './arbitraries.ts';

const names = Object.keys(KINDS);
const stamp: Stamp = { instance: 'w1', nonce: 'n1', write: 3 };

function recordOf(decoded: Decoded<RecordBase>): RecordBase {
  if (decoded.kind !== 'record') throw new Error(`${decoded.kind}: ${decoded.reason}`);
  return decoded.record;
}

/** A sample of each kind, as the object that is stored. */
function stored(name: string, seed = 1): Record<string, unknown> {
  const { codec, records } = KINDS[name]!;
  const [record] = fc.sample(records, { numRuns: 1, seed });
  return JSON.parse(codec.encode(record!, stamp)) as Record<string, unknown>;
}

describe.each(names)('codec of %s', (name) => {
  const { codec, records } = KINDS[name]!;

  test(`codec - ${name} comes back as it was written`, () => {
    fc.assert(
      fc.property(records, anyStamp, (record, by) => {
        expect(codec.decode(codec.encode(record, by))).toEqual({
          kind: 'record',
          record,
          stamp: by,
        });
      }),
    );
  });

  test(`codec - fields of a newer version survive a rewrite of ${name}`, () => {
    const anyName = fc
      .oneof(fc.string(), fc.constantFrom('constructor', 'toString', 'unknown', 'length'))
      .filter(
        (field) =>
          !codec.fields.includes(field) &&
          !['schema', 'minReader', 'by', '__proto__'].includes(field),
      );
    fc.assert(
      fc.property(records, fc.dictionary(anyName, fc.jsonValue()), (record, extra) => {
        const text = JSON.stringify({
          ...(JSON.parse(codec.encode(record, stamp)) as object),
          ...extra,
          schema: SCHEMA + 4,
        });
        const again = codec.encode(recordOf(codec.decode(text)), stamp);
        expect(JSON.parse(again)).toEqual(JSON.parse(text));
      }),
    );
  });

  test(`codec - ${name} of a writer that asks for a newer reader is left alone`, () => {
    const text = JSON.stringify({ ...stored(name), schema: 9, minReader: SCHEMA + 1 });
    const decoded = codec.decode(text);
    expect(decoded.kind).toBe('newer');
    expect(decoded).toHaveProperty('reason', expect.stringContaining(String(SCHEMA + 1)));
    // Even when nothing else of it can be understood.
    expect(codec.decode(JSON.stringify({ schema: 9, minReader: 9 })).kind).toBe('newer');
  });

  test(`codec - ${name} without schema, reader or stamp is junk`, () => {
    for (const field of ['schema', 'minReader', 'by']) {
      for (const value of [undefined, null, 'x', -1, 1.5, {}, { instance: 'a', nonce: 'b' }]) {
        expect(codec.decode(JSON.stringify({ ...stored(name), [field]: value })).kind).toBe('junk');
      }
    }
  });

  test(`codec - ${name} with a field of another type is junk, and the field is named`, () => {
    const wrong = { text: [5, true, null, {}, []], other: [true, 'no number', {}, [], -1, 1.5] };
    for (const field of codec.fields) {
      const sample = stored(name)[field];
      const values = typeof sample === 'string' ? wrong.text : wrong.other;
      for (const value of values) {
        const text = JSON.stringify({ ...stored(name), [field]: value });
        const decoded = codec.decode(text);
        // A field may well accept some of these; if it does not, it says so.
        if (decoded.kind === 'record') {
          expect(codec.decode(codec.encode(decoded.record, stamp))).toEqual({ ...decoded, stamp });
        } else {
          expect(decoded).toHaveProperty('reason', expect.stringContaining(`${name}.${field}`));
        }
      }
      expect(codec.decode(JSON.stringify({ ...stored(name), [field]: { deep: [1] } })).kind).toBe(
        'junk',
      );
    }
  });

  test(`codec - a truncated ${name} is junk`, () => {
    const [record] = fc.sample(records, { numRuns: 1, seed: 5 });
    const text = codec.encode(record!, stamp);
    for (let length = 0; length < text.length; length += 1) {
      expect(codec.decode(text.slice(0, length)).kind).toBe('junk');
    }
  });

  test(`codec - no text makes reading a ${name} throw`, () => {
    const loose = fc.dictionary(
      fc.oneof(
        fc.constantFrom(...codec.fields, 'schema', 'minReader', 'by', '__proto__'),
        fc.string(),
      ),
      fc.oneof(fc.jsonValue(), fc.constantFrom(1, '1', stamp, null)),
    );
    const texts = fc.oneof(
      fc.string(),
      fc.json(),
      loose.map((value) => JSON.stringify(value)),
    );
    fc.assert(
      fc.property(texts, (text) => {
        expect(['record', 'newer', 'junk']).toContain(codec.decode(text).kind);
      }),
      { numRuns: 300 },
    );
    for (const text of [
      '',
      'null',
      '[]',
      '"x"',
      '7',
      '{}',
      '{"schema":1}',
      '\u0000',
      '['.repeat(90_000),
    ]) {
      expect(codec.decode(text).kind).toBe('junk');
    }
  });

  test(`codec - a field named __proto__ changes nothing about a ${name}`, () => {
    const plain = JSON.stringify(stored(name));
    const laced = plain.replace('{', '{"__proto__":{"polluted":true,"schema":1,"owner":"evil"},');
    const decoded = recordOf(codec.decode(laced));
    expect(decoded).toEqual(recordOf(codec.decode(plain)));
    expect(Object.getPrototypeOf(decoded)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    // It does not stand in for a field that is missing either.
    const bare = JSON.stringify({ schema: 1, minReader: 1, by: stamp });
    const smuggled = bare.replace('{', `{"__proto__":${plain},`);
    const read = codec.decode(smuggled);
    const honest = codec.decode(bare);
    expect(read).toEqual(honest);
  });
});

describe('stamps', () => {
  test('stamp - names one write of one process of one instance', () => {
    expect(sameStamp(stamp, { ...stamp })).toBe(true);
    for (const other of [
      { ...stamp, instance: 'w2' },
      { ...stamp, nonce: 'n2' },
      { ...stamp, write: 4 },
      undefined,
    ]) {
      expect(sameStamp(stamp, other)).toBe(false);
      expect(sameStamp(other, stamp)).toBe(false);
    }
    expect(sameStamp(undefined, undefined)).toBe(false);
  });
});
