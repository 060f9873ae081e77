/**
 * The records of a job (see README.md beside this file for keys, lifetimes and who writes what).
 *
 * Watermarks, revisions and epochs are decimal strings; opaque bytes are base64; weights are exact integers.
 */
import type { Epoch } from '../base/decimals.ts';
import type { InstanceId, Nonce, SessionId, SplitId } from '../base/ids.ts';
import {
  BAD,
  base64,
  codec,
  count,
  decimal,
  type Field,
  flag,
  id,
  list,
  nullable,
  object,
  oneOf,
  type RecordBase,
  text,
} from './codec.ts';

/** Most bytes of a split's descriptor (R43). */
export const DESCRIPTOR_BYTES_MAX = 64 * 1024;
/** Most bytes of a split's state (R43). */
export const STATE_BYTES_MAX = 256 * 1024;
/** Most bytes of a planner's cursor. */
export const CURSOR_BYTES_MAX = 64 * 1024;
/** Most splits one worker may hold (R43). */
export const MAX_IN_FLIGHT_MAX = 4096;
/** Most split ids named in a verdict (R23). */
export const VERDICT_IDS_MAX = 1000;
/** Most characters of a stored reason; longer ones are cut. */
export const REASON_CHARACTERS_MAX = 1000;

const REFUSED_SPLITS_MAX = 100_000;

/** How the job ended. `stalled`: every split has ended and some are quarantined. */
export interface VerdictRecord {
  readonly kind: 'complete' | 'stalled' | 'unknown';
  readonly completed: number;
  readonly quarantined: number;
  /** Ids of quarantined splits, at most `VERDICT_IDS_MAX`. */
  readonly ids: readonly SplitId[];
}

/** `plan`: what is known of the whole job. */
export interface PlanRecord extends RecordBase {
  /** Made from configuration alone; every worker of a job must have the same. */
  readonly fingerprint: string;
  /** Orders leaders: each election raises it. */
  readonly generation: number;
  readonly finality: 'open' | 'final' | 'unknown';
  /** True once every split of a final plan is stored; only then may a verdict be given (R22). */
  readonly sealed: boolean;
  /** Splits stored when the plan was last published. */
  readonly planned: number;
  /** Where the planner goes on, opaque, base64. */
  readonly cursor: string | null;
  /** Rises with each requeue, so that a verdict in the making fails its compare (R23). */
  readonly requeues: number;
  readonly verdict: VerdictRecord | null;
}

/** `specs/<split>`: what a worker needs to process the split; never rewritten. */
export interface SpecRecord extends RecordBase {
  readonly weight: number;
  /** Opaque, base64. */
  readonly descriptor: string;
}

/** Where a split stands. */
export type SplitStatus = 'runnable' | 'completed' | 'quarantined' | 'unknown';

/** Why a tenancy failed last. */
export interface FailureRecord {
  readonly reason: string;
  readonly by: string;
  readonly epoch: Epoch;
}

/** `splits/<split>`: the fence. Only its compare-and-swap decides who owns the split. */
export interface SplitRecord extends RecordBase {
  readonly epoch: Epoch;
  readonly status: SplitStatus;
  /** Owner by the record; null after a release, a failure or an end. */
  readonly owner: InstanceId | null;
  /** Process of the last claim; kept after the owner is cleared (R28). */
  readonly nonce: Nonce | null;
  readonly attempts: number;
  readonly weight: number;
  /** Decimal, signed; null before the first commit. */
  readonly watermark: string | null;
  /** Opaque, base64. */
  readonly state: string | null;
  readonly lastFailure: FailureRecord | null;
}

/** `assign/<instance>`: what the leader wants the instance to hold. */
export interface AssignmentRecord extends RecordBase {
  readonly generation: number;
  readonly splits: readonly SplitId[];
}

/**
 * `away/<instance>`: since when an instance has been missing. What is left of the rebalance delay does not begin anew with
 * each leader (R26).
 */
export interface AwayRecord extends RecordBase {
  /** Milliseconds since 1970, by the clock of the leader that saw it go. */
  readonly since: number;
}

/** `parked/<split>`: why a split is quarantined. */
export interface ParkedRecord extends RecordBase {
  readonly attempts: number;
  readonly reason: string;
  readonly owner: string;
}

/** `leader`: who leads; only created and deleted (R19). */
export interface LeaderRecord extends RecordBase {
  readonly owner: InstanceId;
  readonly nonce: Nonce;
  readonly generation: number;
}

/** `workers/<instance>`: a worker that is there. */
export interface PresenceRecord extends RecordBase {
  readonly nonce: Nonce;
  readonly session: SessionId;
  readonly maxInFlight: number;
  /** On its way out: it claims nothing more (R16). */
  readonly parting: boolean;
  /** Splits it cannot take now (R27, R40). */
  readonly refuses: readonly SplitId[];
  readonly version: string;
  /** Facts of the host, for operators. */
  readonly host: string;
}

/** How an owner holds a split, for operators who look at the store alone. */
export type LeaseState = 'owned' | 'draining' | 'cancelledDrain' | 'unknown';

/** `leases/<split>`: liveness of one tenancy; hangs on the worker's session. */
export interface LeaseRecord extends RecordBase {
  readonly owner: InstanceId;
  readonly nonce: Nonce;
  readonly epoch: Epoch;
  readonly state: LeaseState;
}

const SIGNED = /^(0|-?[1-9][0-9]{0,38})$/;
const signedDecimal: Field<string> = (value) =>
  typeof value === 'string' && SIGNED.test(value) ? value : BAD;
const weight: Field<number> = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 1 ? (value as number) : BAD;
const maxInFlight: Field<number> = (value) => {
  const slots = count(value);
  return slots === BAD || slots > MAX_IN_FLIGHT_MAX ? BAD : slots;
};

export const planCodec = codec<PlanRecord>('plan', {
  fingerprint: text,
  generation: count,
  finality: oneOf('open', 'final'),
  sealed: flag,
  planned: count,
  cursor: nullable(base64(CURSOR_BYTES_MAX)),
  requeues: count,
  verdict: nullable(
    object<VerdictRecord>({
      kind: oneOf('complete', 'stalled'),
      completed: count,
      quarantined: count,
      ids: list(id<SplitId>(), VERDICT_IDS_MAX),
    }),
  ),
});

export const specCodec = codec<SpecRecord>('spec', {
  weight,
  descriptor: base64(DESCRIPTOR_BYTES_MAX),
});

export const splitCodec = codec<SplitRecord>('split', {
  epoch: decimal<Epoch>(),
  status: oneOf('runnable', 'completed', 'quarantined'),
  owner: nullable(id<InstanceId>()),
  nonce: nullable(id<Nonce>()),
  attempts: count,
  weight,
  watermark: nullable(signedDecimal),
  state: nullable(base64(STATE_BYTES_MAX)),
  lastFailure: nullable(object<FailureRecord>({ reason: text, by: text, epoch: decimal<Epoch>() })),
});

export const assignmentCodec = codec<AssignmentRecord>('assignment', {
  generation: count,
  splits: list(id<SplitId>(), MAX_IN_FLIGHT_MAX),
});

export const awayCodec = codec<AwayRecord>('away', { since: count });

export const parkedCodec = codec<ParkedRecord>('parked', {
  attempts: count,
  reason: text,
  owner: text,
});

export const leaderCodec = codec<LeaderRecord>('leader', {
  owner: id<InstanceId>(),
  nonce: id<Nonce>(),
  generation: count,
});

export const presenceCodec = codec<PresenceRecord>('presence', {
  nonce: id<Nonce>(),
  session: id<SessionId>(),
  maxInFlight,
  parting: flag,
  refuses: list(id<SplitId>(), REFUSED_SPLITS_MAX),
  version: text,
  host: text,
});

export const leaseCodec = codec<LeaseRecord>('lease', {
  owner: id<InstanceId>(),
  nonce: id<Nonce>(),
  epoch: decimal<Epoch>(),
  state: oneOf('owned', 'draining', 'cancelledDrain'),
});

/** Cuts a reason to what a record keeps. */
export function shortReason(reason: string): string {
  return reason.length <= REASON_CHARACTERS_MAX
    ? reason
    : `${reason.slice(0, REASON_CHARACTERS_MAX - 3)}...`;
}
