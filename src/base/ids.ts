/** Names of things: what they may look like, and the check that every name from outside passes. */
import { LeaseholdError } from './errors.ts';
import type { Random } from './random.ts';

declare const idBrand: unique symbol;
type Id<Name extends string> = string & { readonly [idBrand]: Name };

/** Identity of one split, minted by the planner: 1..128 bytes of `[A-Za-z0-9_-]`, stable across replans. */
export type SplitId = Id<'split'>;
/** Stable identity of one running process: 1..128 bytes of `[A-Za-z0-9_-]`, unique among live processes. */
export type InstanceId = Id<'instance'>;
/** Tells two processes with the same instance id apart: random, one per process start. */
export type Nonce = Id<'nonce'>;
/** A store-side session, named by its opener so that opening is idempotent (R4): a decimal from 1 to 2^63-1. */
export type SessionId = Id<'session'>;

/** Longest id, in bytes (R43). */
const ID_BYTES_MAX = 128;

const ID = /^[A-Za-z0-9_-]{1,128}$/;

/** True when `text` may name a split, an instance or a job (R43). */
export function isId(text: unknown): text is string {
  return typeof text === 'string' && ID.test(text);
}

/** What is wrong with an id, in words; undefined when nothing is. */
export function idProblem(text: unknown): string | undefined {
  if (isId(text)) return undefined;
  if (typeof text !== 'string') return `must be a string, got ${describe(text)}`;
  if (text.length === 0) return 'must not be empty';
  if (text.length > ID_BYTES_MAX) {
    return `must be at most ${ID_BYTES_MAX} bytes, got ${text.length} (${describe(text)})`;
  }
  const bad = Array.from(text).find((character) => !/[A-Za-z0-9_-]/.test(character));
  return `may only contain [A-Za-z0-9_-], got ${describe(bad)} in ${describe(text)}`;
}

/** A short, quoted rendering of any value for messages. */
export function describe(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'number') return String(value);
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** Reads a split id. @throws LeaseholdError `E_ID_INVALID`. */
export function splitIdOf(text: unknown): SplitId {
  return checked(text, 'split id') as SplitId;
}

/** Reads an instance id. @throws LeaseholdError `E_ID_INVALID`. */
export function instanceIdOf(text: unknown): InstanceId {
  return checked(text, 'instanceId') as InstanceId;
}

function checked(text: unknown, what: string): string {
  const problem = idProblem(text);
  if (problem === undefined) return text as string;
  throw new LeaseholdError('E_ID_INVALID', `${what} ${problem}`, {
    details: { what, value: describe(text) },
  });
}

/** A fresh id of 28 letters and digits from `random`: four draws of 32 bits. */
export function randomId(random: Random): string {
  let id = '';
  while (id.length < 28) {
    id += Math.floor(random.next() * 0x100000000)
      .toString(36)
      .padStart(7, '0');
  }
  return id;
}

/**
 * A fresh session id: a decimal from 1 to 2^63-1, because that is what etcd takes for one. 63 bits from `random`.
 */
export function randomSessionId(random: Random): SessionId {
  const high = BigInt(Math.floor(random.next() * 0x80000000));
  const low = BigInt(Math.floor(random.next() * 0x100000000));
  return String((high << 32n) | low | 1n) as SessionId;
}
