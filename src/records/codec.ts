/**
 * How records are written and read: JSON with a schema number, a minimum-reader number and the writer's stamp.
 *
 * Reading is strict about the fields this version knows and keeps the ones it does not: they survive a rewrite, so that a
 * fleet may run two versions at once. Nothing here throws on what a store holds (R42). Tests: test/records.
 */
import { isDecimal } from '../base/decimals.ts';
import { InvariantViolation } from '../base/errors.ts';
import { describe, isId } from '../base/ids.ts';

/** The schema this version writes, and the newest `minReader` it understands. */
export const SCHEMA = 1;

/** Who wrote a value, and which of its writes it was: unique per write, so that a writer knows its own again (R2). */
export interface Stamp {
  readonly instance: string;
  readonly nonce: string;
  /** Counts the writes of one process from 1. */
  readonly write: number;
}

/** True when both stamps name the same write. */
export function sameStamp(a: Stamp | undefined, b: Stamp | undefined): boolean {
  return (
    a !== undefined &&
    b !== undefined &&
    a.write === b.write &&
    a.nonce === b.nonce &&
    a.instance === b.instance
  );
}

/** Fields of a record that a newer version wrote and this one keeps, schema numbers included. */
export type UnknownFields = Readonly<Record<string, unknown>>;

/** What every record carries beside its own fields. */
export interface RecordBase {
  /** Present only when the record came from a newer writer. */
  readonly unknown?: UnknownFields;
  /** Fields of which something reads as `unknown`, as they were found: they are written back as they are. */
  readonly unread?: UnreadFields;
}

/** What was read of a field, and what stood there. */
export type UnreadFields = Readonly<
  Record<string, { readonly read: unknown; readonly found: unknown }>
>;

/** The result of reading a value. */
export type Decoded<T> =
  | { readonly kind: 'record'; readonly record: T; readonly stamp: Stamp }
  /** Written for readers newer than this version: leave it alone. */
  | { readonly kind: 'newer'; readonly reason: string }
  /** Not a record of this kind at all. */
  | { readonly kind: 'junk'; readonly reason: string };

/** Checks and converts one field; returns `BAD` when it breaks its rule, and calls `newer` for what reads as `unknown`. */
export type Field<T> = (value: unknown, newer: () => void) => T | typeof BAD;

/** A field that breaks its rule. */
export const BAD = Symbol('bad field');

/** Writes and reads one kind of record. */
export interface Codec<T extends RecordBase> {
  /** The fields of the record, in the order they are written. */
  readonly fields: readonly string[];
  /**
   * The text of a record, if `decode` would read it back (R55).
   *
   * @throws {InvariantViolation} It would not: the caller is part of this library, so that is a bug of ours, and no write.
   */
  encode(record: T, stamp: Stamp): string;
  readonly decode: (text: string) => Decoded<T>;
}

/** Builds the codec of a record from its fields. */
export function codec<T extends RecordBase>(
  what: string,
  fields: { readonly [Name in Exclude<keyof T, 'unknown' | 'unread'>]-?: Field<T[Name]> },
): Codec<T> {
  const names = Object.keys(fields) as Exclude<keyof T & string, 'unknown' | 'unread'>[];
  const known = new Set<string>([...names, 'schema', 'minReader', 'by']);
  // Most fields of a write are those of the write before: checking them again would be most of the cost.
  const lastGood = Object.fromEntries(names.map((name) => [name, BAD])) as Record<string, unknown>;

  return {
    fields: names,
    encode(record, stamp) {
      const out: Record<string, unknown> = { schema: SCHEMA, minReader: SCHEMA };
      for (const name of names) {
        const value = record[name];
        const unread = record.unread?.[name];
        if (unread !== undefined && unread.read === value) {
          // What only could not be read stays; what somebody has put in its place since is written.
          out[name] = unread.found;
          continue;
        }
        if (value !== lastGood[name] && fields[name](value, ignore) === BAD) {
          throw unreadable(`${what}.${name}`, value);
        }
        if (isSmall(value)) lastGood[name] = value;
        out[name] = value;
      }
      if (stampOf(stamp) === undefined) throw unreadable(`the stamp of a ${what}`, stamp);
      if (record.unknown !== undefined) Object.assign(out, record.unknown);
      out.by = stamp;
      return JSON.stringify(out);
    },
    decode(text) {
      const raw = parseObject(text);
      if (raw === undefined) return junk(`${what} is not a JSON object: ${describe(text)}`);
      const { schema, minReader } = raw;
      if (!isCount(schema) || !isCount(minReader)) {
        return junk(`${what} has no schema and minReader numbers: ${describe(text)}`);
      }
      if (minReader > SCHEMA) {
        return {
          kind: 'newer',
          reason: `${what} needs a reader of schema ${minReader}; this version reads ${SCHEMA}`,
        };
      }
      const stamp = stampOf(raw.by);
      if (stamp === undefined) return junk(`${what} carries no writer stamp: ${describe(text)}`);
      const record: Record<string, unknown> = {};
      let unread: Record<string, UnreadFields[string]> | undefined;
      for (const name of names) {
        let isNewer = false;
        const value = fields[name](raw[name], () => {
          isNewer = true;
        });
        if (isNewer) (unread ??= {})[name] = { read: value, found: raw[name] };
        if (value === BAD) return junk(`${what}.${name} is ${describe(raw[name])}`);
        record[name] = value;
      }
      const unknown = unknownFields(raw, known, schema);
      if (unknown !== undefined) record.unknown = unknown;
      if (unread !== undefined) record.unread = unread;
      return { kind: 'record', record: record as unknown as T, stamp };
    },
  };
}

const SMALL_CHARACTERS_MAX = 128;

function ignore(): void {
  // What a newer version knows is written back as it was found; see `unread`.
}

function isSmall(value: unknown): boolean {
  return typeof value === 'string' ? value.length <= SMALL_CHARACTERS_MAX : Object(value) !== value;
}

function unreadable(name: string, value: unknown): InvariantViolation {
  return new InvariantViolation(
    `${name} = ${describe(value)} could not be read back: nothing is written (R55)`,
  );
}

function junk(reason: string): { kind: 'junk'; reason: string } {
  return { kind: 'junk', reason };
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

function unknownFields(
  raw: Record<string, unknown>,
  known: ReadonlySet<string>,
  schema: number,
): UnknownFields | undefined {
  let unknown: Record<string, unknown> | undefined;
  for (const name of Object.keys(raw)) {
    // `__proto__` would change the object it is assigned to instead of becoming a field.
    if (!known.has(name) && name !== '__proto__') (unknown ??= {})[name] = raw[name];
  }
  // A rewrite by an older version keeps the newer writer's numbers.
  if (schema !== SCHEMA || raw.minReader !== SCHEMA) {
    unknown = { ...unknown, schema, minReader: raw.minReader };
  }
  return unknown;
}

function stampOf(value: unknown): Stamp | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { instance, nonce, write } = value as Record<string, unknown>;
  if (typeof instance !== 'string' || typeof nonce !== 'string' || !isCount(write))
    return undefined;
  return { instance, nonce, write };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** A string. */
export const text: Field<string> = (value) => (typeof value === 'string' ? value : BAD);
/** A whole number of at least 0, exact. */
export const count: Field<number> = (value) => (isCount(value) ? value : BAD);
/** True or false. */
export const flag: Field<boolean> = (value) => (typeof value === 'boolean' ? value : BAD);

/** An id (R43), branded as the caller says. */
export function id<T extends string>(): Field<T> {
  return (value) => (isId(value) ? (value as T) : BAD);
}

/** An unsigned decimal string, branded as the caller says. */
export function decimal<T extends string>(): Field<T> {
  return (value) => (isDecimal(value) ? (value as T) : BAD);
}

/** Null or what `field` accepts; absent counts as null. */
export function nullable<T>(field: Field<T>): Field<T | null> {
  return (value, newer) => (value === null || value === undefined ? null : field(value, newer));
}

/** What `field` accepts; absent, as older versions wrote it, counts as `value`. */
export function orElse<T>(field: Field<T>, value: T): Field<T> {
  return (given, newer) => (given === undefined ? value : field(given, newer));
}

/** A list of at most `most` items. */
export function list<T>(field: Field<T>, most: number): Field<readonly T[]> {
  return (value, newer) => {
    if (!Array.isArray(value) || value.length > most) return BAD;
    const items: T[] = [];
    for (const entry of value) {
      const item = field(entry, newer);
      if (item === BAD) return BAD;
      items.push(item);
    }
    return items;
  };
}

/** One of the values this version knows; a value of a newer version reads as `'unknown'`, which is never written back. */
export function oneOf<T extends string>(...values: readonly T[]): Field<T | 'unknown'> {
  return (value, newer) => {
    if (typeof value !== 'string') return BAD;
    if (values.includes(value as T)) return value as T;
    newer();
    return 'unknown';
  };
}

/** An object with these fields; fields of a newer version stay as they are. */
export function object<T extends object>(fields: {
  readonly [Name in keyof T]-?: Field<T[Name]>;
}): Field<T> {
  const names = Object.keys(fields) as (keyof T & string)[];
  return (value, newer) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return BAD;
    const out: Record<string, unknown> = { ...value };
    for (const name of names) {
      const item = fields[name]((value as Record<string, unknown>)[name], newer);
      if (item === BAD) return BAD;
      out[name] = item;
    }
    return out as T;
  };
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Above this, decoding and encoding again is faster than looking at each character. */
const LONG_CHARACTERS = 1_024;

function isBase64(value: string): boolean {
  const isLong = value.length > LONG_CHARACTERS;
  if (isLong && Buffer.from(value, 'base64').toString('base64') === value) return true;
  return BASE64.test(value);
}

/** Opaque bytes as base64 (R43): at most `bytesMax` once decoded. */
export function base64(bytesMax: number): Field<string> {
  const charactersMax = 4 * Math.ceil(bytesMax / 3);
  return (value) =>
    typeof value === 'string' &&
    value.length <= charactersMax &&
    value.length % 4 === 0 &&
    isBase64(value)
      ? value
      : BAD;
}
