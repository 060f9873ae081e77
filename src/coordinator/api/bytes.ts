/** Opaque bytes and watermarks between the service and the records. */
import { LeaseholdError, messageOf } from '../../base/errors.ts';
import { describe } from '../../base/ids.ts';
import type { ProgressChange } from '../../protocol/tenancy-records.ts';
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

/** Reads progress handed in, each field once. @throws LeaseholdError `E_PROGRESS_INVALID` naming the value and the rule (R43). */
export function storedProgressOf(input: ProgressInput): ProgressChange {
  const read = readProgress(input);
  if (typeof read !== 'string') return read;
  throw new LeaseholdError('E_PROGRESS_INVALID', `progress ${read}`, {
    details: { problem: read },
  });
}

const WATERMARK_DIGITS_MAX = 39;

/** What is wrong with progress, in words. */
export function progressProblem(input: unknown): string | undefined {
  const read = readProgress(input);
  return typeof read === 'string' ? read : undefined;
}

/** Progress as records keep it; what is wrong with it, in words, when it is none. */
function readProgress(input: unknown): ProgressChange | string {
  try {
    return readFields(input);
  } catch (error) {
    return `cannot be read: ${messageOf(error)}`;
  }
}

function readFields(input: unknown): ProgressChange | string {
  if (typeof input !== 'object' || input === null) {
    return `must be an object with a watermark, got ${describe(input)}`;
  }
  const { watermark, state, completed } = input as Readonly<Record<string, unknown>>;
  const isNumber = typeof watermark === 'number' && Number.isSafeInteger(watermark);
  if (typeof watermark !== 'bigint' && !isNumber) {
    return `watermark must be a bigint or a safe integer, got ${describe(watermark)}`;
  }
  const digits = String(watermark);
  if (digits.replace('-', '').length > WATERMARK_DIGITS_MAX) {
    return `watermark must have at most ${WATERMARK_DIGITS_MAX} digits, got ${describe(watermark)}`;
  }
  if (completed !== undefined && typeof completed !== 'boolean') {
    return `completed must be true or false, got ${describe(completed)}`;
  }
  if (state === undefined || state === null) return { watermark: digits, state };
  const wrong = bytesProblem(state, STATE_BYTES_MAX);
  return wrong === undefined
    ? { watermark: digits, state: base64OfBytes(state as Bytes) }
    : `state ${wrong}`;
}

/** What is wrong with opaque bytes that were handed in, in words. */
export function bytesProblem(value: unknown, bytesMax: number): string | undefined {
  if (!isBytes(value)) return `must be bytes or a string, got ${describe(value)}`;
  const bytes = byteLengthOf(value);
  if (bytes > bytesMax) return `must be at most ${bytesMax} bytes, got ${bytes}`;
  if (typeof value === 'string' && !value.isWellFormed()) {
    return `holds half of a surrogate pair, which has no UTF-8: give bytes, got ${describe(value)}`;
  }
  return undefined;
}
