/**
 * Any value in words. Values come from outside and may do anything when they are looked at: nothing here throws, and what
 * comes out is short, well-formed and has no control characters but line breaks and tabs.
 */

const DESCRIPTION_CHARACTERS_MAX = 80;
/** Most characters of the message of something that was thrown. */
const MESSAGE_CHARACTERS_MAX = 1_000;
/** Errors of an AggregateError that are named in its message. */
const INNER_ERRORS_MAX = 3;
/** How deep causes and inner errors are followed. */
const DEPTH_MAX = 8;
/** Fields of an error that are looked at before it is called well-behaved. */
const FIELDS_MAX = 50;

/** A short, quoted rendering of any value for messages. */
export function describe(value: unknown): string {
  return plain(attempt(() => rendered(value)) ?? UNREADABLE, DESCRIPTION_CHARACTERS_MAX);
}

const UNREADABLE = 'a value that cannot be looked at';

function rendered(value: unknown): string {
  switch (typeof value) {
    case 'bigint':
      return `${value}n`;
    case 'number':
    case 'undefined':
    case 'boolean':
    case 'symbol':
      return String(value);
    case 'function':
      return `a function${value.name === '' ? '' : ` (${value.name})`}`;
    case 'string':
      return JSON.stringify(value.slice(0, DESCRIPTION_CHARACTERS_MAX + 1));
    default:
      return renderedObject(value as object | null);
  }
}

function renderedObject(value: object | null): string {
  if (value === null) return 'null';
  // As text a large one would cost as much as it is large.
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`;
  if (Array.isArray(value) && value.length > 100) return `a list of ${value.length}`;
  return attempt(() => JSON.stringify(value)) ?? Object.prototype.toString.call(value);
}

/**
 * The message of anything that was thrown, at most 1,000 characters: what an error says, and for several in one what the
 * first of them say; a rendering of everything else.
 */
export function messageOf(thrown: unknown): string {
  return plain(attempt(() => told(thrown, 0)) ?? UNREADABLE, MESSAGE_CHARACTERS_MAX);
}

function told(thrown: unknown, depth: number): string {
  if (typeof thrown === 'string') return thrown === '' ? 'an empty text' : thrown;
  if (typeof thrown !== 'object' || thrown === null) return describe(thrown);
  const message = attempt(() => (thrown as { message?: unknown }).message);
  const isSaid = typeof message === 'string' && message !== '';
  const own = isSaid ? message : message === undefined || message === '' ? null : describe(message);
  const inner = depth < DEPTH_MAX ? innerErrors(thrown) : [];
  if (inner.length === 0) return own ?? nameOf(thrown) ?? describe(thrown);
  const shown = inner.slice(0, INNER_ERRORS_MAX).map((each) => told(each, depth + 1));
  const more =
    inner.length > INNER_ERRORS_MAX ? `; and ${inner.length - INNER_ERRORS_MAX} more` : '';
  return `${own ?? 'several errors'}: ${shown.join('; ')}${more}`;
}

function innerErrors(thrown: object): readonly unknown[] {
  const errors = attempt(() => (thrown as { errors?: unknown }).errors);
  return attempt(() => thrown instanceof AggregateError && Array.isArray(errors)) === true
    ? (errors as unknown[])
    : [];
}

function nameOf(thrown: object): string | null {
  if (attempt(() => thrown instanceof Error) !== true) return null;
  const name = attempt(() => (thrown as Error).name);
  return typeof name === 'string' && name !== '' ? name : 'Error';
}

/**
 * What was thrown as an error that a logger may serialize: itself when all that a serializer reads of it (name, message,
 * stack, own fields, causes) can be read and is of reasonable size, and otherwise an error that says the same.
 */
export function errorOf(thrown: unknown): Error {
  if (attempt(() => isWellBehaved(thrown, 0)) === true) return thrown as Error;
  const error = new Error(messageOf(thrown));
  const stack = attempt(() => (thrown as Error).stack);
  error.stack =
    typeof stack === 'string' ? plain(stack, 10 * MESSAGE_CHARACTERS_MAX) : error.message;
  return error;
}

function isWellBehaved(thrown: unknown, depth: number): boolean {
  if (!(thrown instanceof Error) || depth > DEPTH_MAX) return false;
  const { name, message, stack = '', cause } = thrown;
  const texts: unknown[] = [name, message, stack];
  if (texts.some((text) => typeof text !== 'string' || text.length > 20 * MESSAGE_CHARACTERS_MAX)) {
    return false;
  }
  if (Object.values(thrown).length > FIELDS_MAX) return false;
  const inner = [...innerErrors(thrown), ...(cause instanceof Error ? [cause] : [])];
  return inner.length <= FIELDS_MAX && inner.every((each) => isWellBehaved(each, depth + 1));
}

/** Well-formed, printable and at most `most` characters. */
function plain(text: string, most: number): string {
  const shown = text.length > most ? `${text.slice(0, most - 3)}...` : text;
  return shown
    .toWellFormed()
    .replaceAll(/[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F]/g, '\uFFFD');
}

/** What `look` finds; undefined when looking throws. */
function attempt<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
