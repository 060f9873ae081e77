/** Opaque bytes and watermarks between the service and the records. */
import { LeaseholdError } from '../../base/errors.ts';
import { describe } from '../../base/ids.ts';
import type { Progress as StoredProgress } from '../../protocol/tenancy-records.ts';
import { type SplitRecord, STATE_BYTES_MAX } from '../../records/records.ts';
import type { Bytes, Progress, ProgressInput } from './api.ts';

/** Bytes as records keep them. */
export function base64OfBytes(bytes: Bytes): string {
  return typeof bytes === 'string'
    ? Buffer.from(bytes, 'utf8').toString('base64')
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

/** Bytes as services get them: a copy of their own. */
export function bytesOfBase64(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'base64'));
}

/** How many bytes a value has; a string counts as UTF-8. */
export function byteLengthOf(bytes: Bytes): number {
  return typeof bytes === 'string' ? Buffer.byteLength(bytes, 'utf8') : bytes.byteLength;
}

/** True for what may stand for bytes. */
export function isBytes(value: unknown): value is Bytes {
  return typeof value === 'string' || value instanceof Uint8Array;
}

/** Progress of a record as services get it; null before the first commit. */
export function progressOf(record: SplitRecord): Progress | null {
  if (record.watermark === null) return null;
  return {
    watermark: BigInt(record.watermark),
    state: record.state === null ? null : bytesOfBase64(record.state),
  };
}

/** Reads progress handed in. @throws LeaseholdError `E_PROGRESS_INVALID` naming the value and the rule (R43). */
export function storedProgressOf(input: ProgressInput): StoredProgress {
  const problem = progressProblem(input);
  if (problem !== undefined) {
    throw new LeaseholdError('E_PROGRESS_INVALID', `progress ${problem}`, {
      details: { problem },
    });
  }
  const { watermark, state } = input;
  return {
    watermark: String(watermark),
    state: state === undefined || state === null ? null : base64OfBytes(state),
  };
}

const WATERMARK_DIGITS_MAX = 39;

/** What is wrong with progress, in words. */
export function progressProblem(input: unknown): string | undefined {
  if (typeof input !== 'object' || input === null) {
    return `must be an object with a watermark, got ${describe(input)}`;
  }
  const { watermark, state } = input as { watermark?: unknown; state?: unknown };
  const isNumber = typeof watermark === 'number' && Number.isSafeInteger(watermark);
  if (typeof watermark !== 'bigint' && !isNumber) {
    return `watermark must be a bigint or a safe integer, got ${describe(watermark)}`;
  }
  if (String(watermark).replace('-', '').length > WATERMARK_DIGITS_MAX) {
    return `watermark must have at most ${WATERMARK_DIGITS_MAX} digits, got ${describe(watermark)}`;
  }
  if (state === undefined || state === null) return undefined;
  if (!isBytes(state)) return `state must be bytes or a string, got ${describe(state)}`;
  if (byteLengthOf(state) > STATE_BYTES_MAX) {
    return `state must be at most ${STATE_BYTES_MAX} bytes, got ${byteLengthOf(state)}`;
  }
  return undefined;
}
