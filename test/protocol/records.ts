/** Records for tests of the pure protocol. */
import fc from 'fast-check';
import type { Epoch } from '../../src/base/decimals.ts';
import type { InstanceId, Nonce } from '../../src/base/ids.ts';
import type { SplitRecord } from '../../src/records/records.ts';

/** A runnable split that nobody ever owned, except for the fields given. */
export function record(fields: Partial<SplitRecord> = {}): SplitRecord {
  return {
    epoch: '0' as Epoch,
    status: 'runnable',
    owner: null,
    nonce: null,
    attempts: 0,
    weight: 10,
    watermark: null,
    state: null,
    lastFailure: null,
    ...fields,
  };
}

export function epoch(value: number | bigint): Epoch {
  return String(value) as Epoch;
}

export function instanceId(id: string): InstanceId {
  return id as InstanceId;
}

export const anyWatermark = fc.option(
  fc.oneof(fc.bigInt({ min: -20n, max: 20n }), fc.bigInt({ min: -(10n ** 38n), max: 10n ** 38n })),
  { nil: null },
);

/** Any record of a split, with fields of a newer version every so often. */
export const anyRecord: fc.Arbitrary<SplitRecord> = fc
  .record({
    epoch: fc.bigInt({ min: 0n, max: 10n ** 20n }).map(epoch),
    status: fc.constantFrom('runnable', 'completed', 'quarantined', 'unknown'),
    owner: fc.constantFrom('me', 'peer', 'dead', null),
    nonce: fc.constantFrom('n1', 'n2', null),
    attempts: fc.integer({ min: 0, max: 6 }),
    weight: fc.integer({ min: 1, max: 100 }),
    watermark: anyWatermark.map((value) => (value === null ? null : String(value))),
    state: fc.constantFrom(null, '', 'AAAA'),
    lastFailure: fc.option(
      fc.record({ reason: fc.string(), by: fc.constant('peer'), epoch: fc.constant(epoch(1)) }),
      { nil: null },
    ),
    unknown: fc.option(fc.dictionary(fc.string(), fc.jsonValue()), { nil: undefined }),
  })
  .map(({ unknown, ...fields }) => {
    const known = {
      ...fields,
      owner: fields.owner as InstanceId | null,
      nonce: fields.nonce as Nonce,
    };
    return unknown === undefined ? known : { ...known, unknown };
  });

/** The same as {@link anyRecord}, but still in the pool. */
export const anyRunnable = anyRecord.map((one): SplitRecord => ({ ...one, status: 'runnable' }));
