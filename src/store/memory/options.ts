/** The table of what a memory store is made from, and its check. */
import { A_CLOCK, A_RANDOM } from '../../base/rules.ts';
import {
  aFlag,
  aFunction,
  aNumber,
  aText,
  aWholeNumber,
  readTable,
  refuseIfAny,
  type TableOf,
  type Violation,
} from '../../base/shape.ts';
import type { MemoryStoreOptions } from './controls.ts';

/** The options of `memoryStore`. */
export const MEMORY_OPTIONS: TableOf<MemoryStoreOptions> = {
  clock: {
    rule: A_CLOCK,
    defaultText: 'of the host',
    meaning: 'Drives the expiry of sessions.',
  },
  random: { rule: A_RANDOM, defaultText: 'none', meaning: 'Needed by expiryLagMsMax only.' },
  clusterId: { rule: aText(), defaultText: 'memory', meaning: 'Names the cluster.' },
  historyRevisionsMax: {
    rule: aWholeNumber(1, Number.MAX_SAFE_INTEGER),
    defaultText: '10000',
    meaning: 'Revisions that stay readable.',
  },
  keepAudit: {
    rule: aFlag(),
    defaultText: 'false',
    meaning: 'Keeps every commit for history(). Grows without bound.',
  },
  expiryLagMsMax: {
    rule: aNumber(0, 3_600_000, ' ms'),
    defaultText: '0',
    meaning: 'Sessions expire up to this much after their time, as in etcd.',
  },
  grantTtlMs: {
    rule: aFunction('(askedMs) => grantedMs'),
    defaultText: 'the same',
    meaning: 'The life granted for the life asked.',
  },
  classify: {
    rule: aFunction('(key) => class'),
    defaultText: 'third part of the key',
    meaning: 'The class under which stats counts a write.',
  },
};

/** @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations. */
export function checkMemoryOptions(given: unknown): MemoryStoreOptions {
  const found: Violation[] = [];
  const values = readTable(given, MEMORY_OPTIONS, { name: 'options', found });
  const { expiryLagMsMax = 0, random } = values;
  if (expiryLagMsMax !== 0 && random === undefined) {
    found.push({
      option: 'random',
      value: 'undefined',
      rule: 'is needed by expiryLagMsMax; seededRandom(1) of leasehold/testing will do',
    });
  }
  refuseIfAny(found, 'options');
  return values;
}
