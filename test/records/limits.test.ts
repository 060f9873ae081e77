/** What single fields accept: limits, enums of a newer version, and the form in which each record is written. */
import { describe, expect, test } from '@jest/globals';
import type { Epoch } from '../../src/base/decimals.ts';
import type { InstanceId, Nonce } from '../../src/base/ids.ts';
import type { Codec, Decoded, RecordBase } from '../../src/records/codec.ts';
import {
  assignmentCodec,
  DESCRIPTOR_BYTES_MAX,
  leaseCodec,
  MAX_IN_FLIGHT_MAX,
  planCodec,
  presenceCodec,
  REASON_CHARACTERS_MAX,
  shortReason,
  specCodec,
  splitCodec,
  type SplitRecord,
  STATE_BYTES_MAX,
} from '../../src/records/records.ts';

const by = { instance: 'w1', nonce: 'n1', write: 3 };

function read<T extends RecordBase>(codec: Codec<T>, fields: object): Decoded<T> {
  return codec.decode(JSON.stringify({ schema: 1, minReader: 1, by, ...fields }));
}

const split: SplitRecord = {
  epoch: '4' as Epoch,
  status: 'runnable',
  owner: 'w1' as InstanceId,
  nonce: 'n1' as Nonce,
  attempts: 1,
  weight: 7,
  watermark: '-12',
  state: 'AAAA',
  lastFailure: null,
};
const plan = {
  fingerprint: 'f',
  generation: 1,
  finality: 'open',
  sealed: false,
  planned: 0,
  cursor: null,
  requeues: 0,
  verdict: null,
};
const presence = {
  nonce: 'n',
  session: 's',
  maxInFlight: 8,
  parting: false,
  refuses: [],
  version: '1',
  host: '',
};

describe('form', () => {
  test('record - the written form is pinned: another version reads it', () => {
    expect(splitCodec.encode(split, by)).toBe(
      '{"schema":1,"minReader":1,"epoch":"4","status":"runnable","owner":"w1","nonce":"n1","attempts":1,' +
        '"weight":7,"watermark":"-12","state":"AAAA","lastFailure":null,' +
        '"by":{"instance":"w1","nonce":"n1","write":3}}',
    );
  });

  test('record - a nullable field that is absent reads as null', () => {
    const { owner: _, watermark: __, ...rest } = split;
    expect(read(splitCodec, rest)).toMatchObject({ record: { owner: null, watermark: null } });
  });

  test('record - fields of a newer version inside a nested object survive too', () => {
    const lastFailure = { reason: 'r', by: 'w1', epoch: '3', code: 'E_NEW' };
    const decoded = read(splitCodec, { ...split, lastFailure });
    if (decoded.kind !== 'record') throw new Error(decoded.reason);
    expect(JSON.parse(splitCodec.encode(decoded.record, by))).toMatchObject({ lastFailure });
  });
});

describe('enums', () => {
  test('record - a value that only a newer version knows reads as unknown', () => {
    expect(read(splitCodec, { ...split, status: 'sleeping' })).toMatchObject({
      record: { status: 'unknown' },
    });
    expect(read(planCodec, { ...plan, finality: 'rolling' })).toMatchObject({
      record: { finality: 'unknown' },
    });
    const lease = { owner: 'w1', nonce: 'n1', epoch: '1', state: 'frozen' };
    expect(read(leaseCodec, lease)).toMatchObject({ record: { state: 'unknown' } });
    const verdict = { kind: 'partial', completed: 1, quarantined: 0, ids: [] };
    expect(read(planCodec, { ...plan, verdict })).toMatchObject({
      record: { verdict: { kind: 'unknown' } },
    });
    expect(read(splitCodec, { ...split, status: 5 }).kind).toBe('junk');
  });
});

describe('limits', () => {
  test('record - weights are whole numbers of 1 to 2^53-1', () => {
    for (const weight of [1, Number.MAX_SAFE_INTEGER]) {
      expect(read(specCodec, { weight, descriptor: '' }).kind).toBe('record');
    }
    for (const weight of [0, -1, 1.5, 2 ** 53, '7', null]) {
      expect(read(specCodec, { weight, descriptor: '' }).kind).toBe('junk');
    }
  });

  test('record - bytes are base64 within their limit', () => {
    const bytes = (size: number): string => Buffer.alloc(size).toString('base64');
    const readSpec = (descriptor: string): string =>
      read(specCodec, { weight: 1, descriptor }).kind;
    const readState = (state: string): string => read(splitCodec, { ...split, state }).kind;
    expect(readSpec(bytes(DESCRIPTOR_BYTES_MAX))).toBe('record');
    expect(readSpec(bytes(DESCRIPTOR_BYTES_MAX + 3))).toBe('junk');
    expect(readState(bytes(STATE_BYTES_MAX))).toBe('record');
    expect(readState(bytes(STATE_BYTES_MAX + 3))).toBe('junk');
    for (const text of ['A', 'AA', 'AAA', 'A===', 'AA=A', 'AAAA\n', '!!!!', 'AAA-']) {
      expect(readSpec(text)).toBe('junk');
    }
  });

  test('record - epochs and watermarks are decimals without leading zeros', () => {
    const kinds = (field: string, values: readonly unknown[]): string[] =>
      values.map((value) => read(splitCodec, { ...split, [field]: value }).kind);
    expect(kinds('epoch', ['0', '18446744073709551616'])).toEqual(['record', 'record']);
    expect(kinds('epoch', ['', '01', '-1', '1.0', '1e3', ' 1', 1])).toEqual(Array(7).fill('junk'));
    expect(kinds('watermark', ['0', '-1', '9223372036854775808', null])).toEqual(
      Array(4).fill('record'),
    );
    expect(kinds('watermark', ['-0', '+1', '00', '1n', 'NaN', 5])).toEqual(Array(6).fill('junk'));
  });

  test('record - ids that could not have been written are junk', () => {
    for (const owner of ['', 'a/b', '..', 'a b', 'é', 'x'.repeat(129)]) {
      expect(read(splitCodec, { ...split, owner }).kind).toBe('junk');
    }
  });

  test('record - budgets and lists end at 4,096', () => {
    const budgets = [0, MAX_IN_FLIGHT_MAX, MAX_IN_FLIGHT_MAX + 1, -1];
    const kinds = budgets.map(
      (maxInFlight) => read(presenceCodec, { ...presence, maxInFlight }).kind,
    );
    expect(kinds).toEqual(['record', 'record', 'junk', 'junk']);
    const ids = Array.from({ length: MAX_IN_FLIGHT_MAX + 1 }, (_, index) => `s${index}`);
    expect(read(assignmentCodec, { generation: 1, splits: ids }).kind).toBe('junk');
    expect(read(assignmentCodec, { generation: 1, splits: ids.slice(1) }).kind).toBe('record');
  });

  test('record - a reason is cut to what a record keeps, and says that it was', () => {
    expect(shortReason('short')).toBe('short');
    const exact = 'x'.repeat(REASON_CHARACTERS_MAX);
    expect(shortReason(exact)).toBe(exact);
    expect(shortReason(`${exact}y`)).toHaveLength(REASON_CHARACTERS_MAX);
    expect(shortReason(`${exact}y`).endsWith('...')).toBe(true);
  });
});
