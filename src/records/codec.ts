/**
 * How records are written and read: JSON with a schema number, a minimum-reader number and the writer's stamp.
 *
 * Reading is strict about the fields this version knows and keeps the ones it does not: they survive a rewrite, so that a
 * fleet may run two versions at once. Nothing here throws on what a store holds (R42). Tests: test/records.
 */
import { isDecimal } from '../base/decimals.ts';
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
}

/** The result of reading a value. */
export type Decoded<T> =
  | { readonly kind: 'record'; readonly record: T; readonly stamp: Stamp }
  /** Written for readers newer than this version: leave it alone. */
  | { readonly kind: 'newer'; readonly reason: string }
  /** Not a record of this kind at all. */
  | { readonly kind: 'junk'; readonly reason: string };

/** Checks and converts one field; returns `BAD` when it breaks its rule. */
export type Field<T> = (value: unknown) => T | typeof BAD;

/** A field that breaks its rule. */
export const BAD = Symbol('bad field');

/** Writes and reads one kind of record. */
export interface Codec<T extends RecordBase> {
  /** The fields of the record, in the order they are written. */
  readonly fields: readonly string[];
  encode(record: T, stamp: Stamp): string;
  readonly decode: (text: string) => Decoded<T>;
}

/** Builds the codec of a record from its fields. */
export function codec<T extends RecordBase>(
  what: string,
  fields: { readonly [Name in Exclude<keyof T, 'unknown'>]-?: Field<T[Name]> },
): Codec<T> {
  const names = Object.keys(fields) as Exclude<keyof T & string, 'unknown'>[];
  const known = new Set<string>([...names, 'schema', 'minReader', 'by']);

  return {
    fields: names,
    encode(record, stamp) {
      const out: Record<string, unknown> = { schema: SCHEMA, minReader: SCHEMA };
      for (const name of names) out[name] = record[name];
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
      for (const name of names) {
        const value = fields[name](raw[name]);
        if (value === BAD) return junk(`${what}.${name} is ${describe(raw[name])}`);
        record[name] = value;
      }
      const unknown = unknownFields(raw, known, schema);
      if (unknown !== undefined) record.unknown = unknown;
      return { kind: 'record', record: record as unknown as T, stamp };
    },
  };
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
  return (value) => (value === null || value === undefined ? null : field(value));
}

/** A list of at most `most` items. */
export function list<T>(field: Field<T>, most: number): Field<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value) || value.length > most) return BAD;
    const items: T[] = [];
    for (const entry of value) {
      const item = field(entry);
      if (item === BAD) return BAD;
      items.push(item);
    }
    return items;
  };
}

/** One of the values this version knows; a value of a newer version reads as `'unknown'` and is never written back. */
export function oneOf<T extends string>(...values: readonly T[]): Field<T | 'unknown'> {
  return (value) => {
    if (typeof value !== 'string') return BAD;
    return values.includes(value as T) ? (value as T) : 'unknown';
  };
}

/** An object with these fields; fields of a newer version stay as they are. */
export function object<T extends object>(fields: {
  readonly [Name in keyof T]-?: Field<T[Name]>;
}): Field<T> {
  const names = Object.keys(fields) as (keyof T & string)[];
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return BAD;
    const out: Record<string, unknown> = { ...value };
    for (const name of names) {
      const item = fields[name]((value as Record<string, unknown>)[name]);
      if (item === BAD) return BAD;
      out[name] = item;
    }
    return out as T;
  };
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Opaque bytes as base64 (R43): at most `bytesMax` once decoded. */
export function base64(bytesMax: number): Field<string> {
  const charactersMax = 4 * Math.ceil(bytesMax / 3);
  return (value) =>
    typeof value === 'string' && value.length <= charactersMax && BASE64.test(value) ? value : BAD;
}
