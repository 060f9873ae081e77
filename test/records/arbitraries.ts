/** Any record of each kind, and its codec. */
import fc from 'fast-check';
import type { Codec, RecordBase } from '../../src/records/codec.ts';
import {
  assignmentCodec,
  leaderCodec,
  leaseCodec,
  parkedCodec,
  planCodec,
  presenceCodec,
  specCodec,
  splitCodec,
} from '../../src/records/records.ts';

/** Ids as people choose them, and those that trip up objects used as maps. */
export const anyId = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_-]{1,128}$/),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'plan', 'paused', '-', '_', '0'),
);

const anyCount = fc.oneof(fc.maxSafeNat(), fc.integer({ min: 0, max: 5 }));
const anyDecimal = fc.bigInt({ min: 0n, max: 10n ** 39n - 1n }).map(String);
const anySigned = fc.bigInt({ min: -(10n ** 39n) + 1n, max: 10n ** 39n - 1n }).map(String);
const anyBytes = fc
  .uint8Array({ maxLength: 40 })
  .map((bytes) => Buffer.from(bytes).toString('base64'));

function nullable<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.option(arbitrary, { nil: null });
}

export const anyStamp = fc.record({
  instance: fc.string(),
  nonce: fc.string(),
  write: anyCount,
});

/** A codec and records that it writes. */
export interface Kind {
  readonly codec: Codec<RecordBase>;
  readonly records: fc.Arbitrary<RecordBase>;
}

function kind<T extends RecordBase>(codec: Codec<T>, records: fc.Arbitrary<object>): Kind {
  return {
    codec: codec,
    records: records,
  };
}

export const KINDS: Readonly<Record<string, Kind>> = {
  plan: kind(
    planCodec,
    fc.record({
      fingerprint: fc.string(),
      generation: anyCount,
      finality: fc.constantFrom('open', 'final'),
      sealed: fc.boolean(),
      planned: anyCount,
      cursor: nullable(anyBytes),
      requeues: anyCount,
      verdict: nullable(
        fc.record({
          kind: fc.constantFrom('complete', 'stalled'),
          completed: anyCount,
          quarantined: anyCount,
          ids: fc.array(anyId, { maxLength: 5 }),
        }),
      ),
    }),
  ),
  spec: kind(specCodec, fc.record({ weight: fc.integer({ min: 1 }), descriptor: anyBytes })),
  split: kind(
    splitCodec,
    fc.record({
      epoch: anyDecimal,
      status: fc.constantFrom('runnable', 'completed', 'quarantined'),
      owner: nullable(anyId),
      nonce: nullable(anyId),
      attempts: anyCount,
      weight: fc.constantFrom(1, 7, Number.MAX_SAFE_INTEGER),
      watermark: nullable(anySigned),
      state: nullable(anyBytes),
      lastFailure: nullable(fc.record({ reason: fc.string(), by: fc.string(), epoch: anyDecimal })),
    }),
  ),
  assignment: kind(
    assignmentCodec,
    fc.record({ generation: anyCount, splits: fc.array(anyId, { maxLength: 9 }) }),
  ),
  parked: kind(
    parkedCodec,
    fc.record({ attempts: anyCount, reason: fc.string(), owner: fc.string() }),
  ),
  leader: kind(leaderCodec, fc.record({ owner: anyId, nonce: anyId, generation: anyCount })),
  presence: kind(
    presenceCodec,
    fc.record({
      nonce: anyId,
      session: anyId,
      maxInFlight: fc.integer({ min: 0, max: 4096 }),
      parting: fc.boolean(),
      refuses: fc.array(anyId, { maxLength: 5 }),
      version: fc.string(),
      host: fc.string(),
    }),
  ),
  lease: kind(
    leaseCodec,
    fc.record({
      owner: anyId,
      nonce: anyId,
      epoch: anyDecimal,
      state: fc.constantFrom('owned', 'draining', 'cancelledDrain'),
    }),
  ),
};
