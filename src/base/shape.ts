/**
 * What comes in from outside, checked by tables: one row for each option, with what it may be and what it means. The same rows
 * make the documents (OPTIONS.md). All that is wrong is said at once; looking at a value never throws (R56).
 */
import { describe, messageOf } from './describe.ts';
import { LeaseholdError } from './errors.ts';

/** One broken rule. */
export interface Violation {
  /** What breaks it: the name of an option or an argument. */
  readonly option: string;
  /** Its value, rendered. */
  readonly value: string;
  /** The rule, and what to do. */
  readonly rule: string;
}

/** What a value may be. */
export interface Rule {
  /** In words that follow "must be". */
  readonly allowed: string;
  /** Adds what is wrong with a value of this name. */
  check(value: unknown, name: string, found: Violation[]): void;
}

/** One option. */
export interface Field {
  readonly rule: Rule;
  readonly meaning: string;
  /** As the documents show it; absent for options that must be given. */
  readonly defaultText?: string;
  readonly isRequired?: boolean;
  /** Its value is shown by its type alone. */
  readonly isSecret?: boolean;
}

/** The options of one function, by name. */
export type Table = Readonly<Record<string, Field>>;

/** The table of an interface: a row for each of its fields, and no other. */
export type TableOf<T> = { readonly [Name in keyof Required<T>]: Field };

/** A rule that either holds or does not; `remedy` says what to do where that is not plain. */
export function mustBe(
  allowed: string,
  holds: (value: unknown) => boolean,
  remedy: (value: unknown) => string = () => '',
): Rule {
  return {
    allowed,
    check(value, name, found) {
      if (attempted(() => holds(value)) === true) return;
      const hint = attempted(() => remedy(value)) ?? '';
      found.push(violation(name, value, `must be ${allowed}${hint === '' ? '' : `; ${hint}`}`));
    },
  };
}

/** A rule that says by itself what is wrong. */
export function mustPass(allowed: string, problem: (value: unknown) => string | undefined): Rule {
  return {
    allowed,
    check(value, name, found) {
      const wrong = attempted(() => [problem(value)]) ?? [`must be ${allowed}`];
      if (wrong[0] !== undefined) found.push(violation(name, value, wrong[0]));
    },
  };
}

/** Any text, or one of a certain form. */
export function aText(allowed = 'a text', form = /[^]*/): Rule {
  return mustBe(allowed, (value) => typeof value === 'string' && form.test(value));
}

export function aFunction(signature: string): Rule {
  return mustBe(`a function ${signature}`, (value) => typeof value === 'function');
}

export function aFlag(): Rule {
  return mustBe('true or false', (value) => typeof value === 'boolean');
}

/** A finite number between two others, both allowed. */
export function aNumber(min: number, max: number, unit: '' | ' ms' = ''): Rule {
  return mustBe(
    `a finite number from ${min} to ${max}${unit}`,
    (value) => Number.isFinite(value) && (value as number) >= min && (value as number) <= max,
  );
}

/** The same, without fractions. */
export function aWholeNumber(min: number, max: number): Rule {
  return mustBe(
    `a whole number from ${min} to ${max}`,
    (value) => Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
  );
}

export function oneOf(...values: readonly string[]): Rule {
  return mustBe(`one of ${values.join(', ')}`, (value) => values.includes(value as string));
}

/** An object with these methods, of whatever class. */
export function having(
  what: string,
  methods: readonly string[],
  remedy?: (value: unknown) => string,
): Rule {
  return mustBe(
    `${what} (an object with ${methods.join(', ')})`,
    (value) =>
      typeof value === 'object' &&
      value !== null &&
      methods.every(
        (name) => typeof (value as Readonly<Record<string, unknown>>)[name] === 'function',
      ),
    (value) => {
      const told = remedy?.(value) ?? '';
      if (typeof value !== 'object' || value === null) return told;
      const lacking = methods.filter(
        (name) => typeof (value as Readonly<Record<string, unknown>>)[name] !== 'function',
      );
      const lacks = `it lacks ${lacking.join(', ')}`;
      return told === '' ? lacks : `${lacks}; ${told}`;
    },
  );
}

/** A list of values that each keep to a rule. */
export function aListOf(rule: Rule, least = 0): Rule {
  const allowed = `a list${least === 0 ? '' : ` of at least ${least}`}, each ${rule.allowed}`;
  return {
    allowed,
    check(value, name, found) {
      const items = attempted(() => (Array.isArray(value) ? Array.from<unknown>(value) : null));
      if (items === undefined || items === null || items.length < least) {
        found.push(violation(name, value, `must be ${allowed}`));
        return;
      }
      for (const [index, item] of items.entries()) rule.check(item, `${name}[${index}]`, found);
    },
  };
}

/** An object with options of its own. */
export function anObject(table: Table): Rule {
  return {
    allowed: `an object with ${Object.keys(table).join(', ')}`,
    check(value, name, found) {
      readTable(value, table, { name, prefix: `${name}.`, found });
    },
  };
}

/** Where a table of options stands. */
export interface Place {
  /** Of the object itself. */
  readonly name: string;
  /** Of its options; nothing when absent. */
  readonly prefix?: string;
  readonly found: Violation[];
  /** What is mistyped may be a secret: values of unknown names are shown by their type alone. */
  readonly hasSecrets?: boolean;
  /** Names that belong elsewhere, and where. */
  readonly elsewhere?: Readonly<Record<string, string>>;
}

/**
 * Reads options, each once: what keeps to its rule, by name. What does not is added to `found` and left out, so that nothing
 * is said twice of what hangs on it.
 */
export function readTable(given: unknown, table: Table, place: Place): Record<string, unknown> {
  const { name: of, found, prefix = '' } = place;
  const values: Record<string, unknown> = {};
  if (!isPlainObject(given)) {
    found.push(
      violation(of, given, `must be a plain object with ${Object.keys(table).join(', ')}`),
    );
    return values;
  }
  unknownNames(given, Object.keys(table), place);
  for (const [name, field] of Object.entries(table)) {
    const read = readField(given, name);
    if ('problem' in read) {
      found.push({ option: `${prefix}${name}`, value: 'unreadable', rule: read.problem });
      continue;
    }
    const { value } = read;
    if (value === undefined && field.isRequired !== true) continue;
    const before = found.length;
    field.rule.check(value, `${prefix}${name}`, found);
    if (found.length === before) values[name] = value;
    else if (field.isSecret === true) conceal(found, before, value);
  }
  return values;
}

/** Adds the names that are no options, each with the one that may have been meant. */
export function unknownNames(given: object, names: readonly string[], place: Place): void {
  const { prefix = '', found, elsewhere = {}, hasSecrets = false } = place;
  for (const name of Object.keys(given)) {
    if (names.includes(name)) continue;
    const read = readField(given, name);
    if ('value' in read && read.value === undefined) continue;
    const meant = nearest(name, names);
    const hint = Object.hasOwn(elsewhere, name)
      ? `it is given as ${elsewhere[name]!}`
      : meant !== undefined
        ? `did you mean ${meant}?`
        : '';
    found.push({
      option: `${prefix}${name}`,
      value: shownOf(read, hasSecrets),
      rule: `is no option${hint === '' ? '' : `; ${hint}`}; the options are ${names.join(', ')}`,
    });
  }
}

function shownOf(read: ReturnType<typeof readField>, isSecret: boolean): string {
  if (!('value' in read)) return 'unreadable';
  return isSecret ? typeof read.value : describe(read.value);
}

/** The options of a call; refuses them, all violations at once. @throws LeaseholdError `E_CONFIG_INVALID`. */
export function checkTable<T extends object>(given: unknown, table: TableOf<T>, what: string): T {
  const found: Violation[] = [];
  const values = readTable(given, table, { name: what, found });
  refuseIfAny(found, what);
  return values as T;
}

/** One argument of a call. @throws LeaseholdError `E_CONFIG_INVALID`. */
export function checkArgument(value: unknown, name: string, rule: Rule): void {
  const found: Violation[] = [];
  rule.check(value, name, found);
  refuseIfAny(found, 'arguments');
}

/** @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations, if there are any. */
export function refuseIfAny(violations: readonly Violation[], what: string): void {
  if (violations.length === 0) return;
  const lines = violations.map(({ option, value, rule }) => `${option} = ${value}: ${rule}`);
  throw new LeaseholdError('E_CONFIG_INVALID', `invalid ${what}: ${lines.join('; ')}`, {
    details: { violations },
  });
}

/** An object as literals and `JSON.parse` make them; of whatever realm. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const isPlain = attempted(() => {
    if (Array.isArray(value)) return false;
    const prototype: unknown = Object.getPrototypeOf(value);
    return prototype === null || Object.getPrototypeOf(prototype) === null;
  });
  return isPlain === true;
}

function violation(option: string, value: unknown, rule: string): Violation {
  return { option, value: describe(value), rule };
}

function conceal(found: Violation[], from: number, value: unknown): void {
  for (let index = from; index < found.length; index += 1) {
    found[index] = { ...found[index]!, value: typeof value };
  }
}

function readField(
  given: object,
  name: string,
): { readonly value: unknown } | { readonly problem: string } {
  try {
    return { value: (given as Readonly<Record<string, unknown>>)[name] };
  } catch (error) {
    return { problem: `cannot be read: ${messageOf(error)}` };
  }
}

/** Undefined when `look` throws: a value that does not let itself be looked at keeps to no rule. */
function attempted<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

/** Longer names are not compared. */
const NAME_CHARACTERS_MAX = 64;

/** The name that is at most two slips, and less than half the letters, away. */
export function nearest(name: string, names: readonly string[]): string | undefined {
  const slips = names.map((known) => ({
    known,
    count: distance(name.toLowerCase(), known.toLowerCase()),
  }));
  const best = slips.sort((a, b) => a.count - b.count)[0];
  if (best === undefined) return undefined;
  const isPart = name.length >= 4 && best.known.toLowerCase().startsWith(name.toLowerCase());
  return isPart || (best.count <= 2 && 2 * best.count < best.known.length) ? best.known : undefined;
}

/** Letters to change, add, leave out or exchange with their neighbour (optimal string alignment). */
function distance(from: string, to: string): number {
  if (from.length > NAME_CHARACTERS_MAX || to.length > NAME_CHARACTERS_MAX) return Infinity;
  const [a, b] = [Array.from(from), Array.from(to)];
  let before: number[] = [];
  let row = [...b, ''].map((_, index) => index);
  for (const [i, letter] of a.entries()) {
    const next = [i + 1];
    for (const [j, other] of b.entries()) {
      const costs = [next[j]! + 1, row[j + 1]! + 1, row[j]! + (letter === other ? 0 : 1)];
      if (j > 0 && i > 0 && letter === b[j - 1] && a[i - 1] === other) {
        costs.push(before[j - 1]! + 1);
      }
      next.push(Math.min(...costs));
    }
    before = row;
    row = next;
  }
  return row.at(-1)!;
}
