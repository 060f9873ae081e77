/** The table of what a worker is made from, and its check: everything that is wrong is said at once (R43, R44, R56). */
import { messageOf } from '../../base/errors.ts';
import { describe, randomId } from '../../base/ids.ts';
import { A_CLOCK, A_LOGGER, A_RANDOM, AN_ID } from '../../base/rules.ts';
import { type Random, systemRandom } from '../../base/random.ts';
import {
  aFunction,
  aText,
  having,
  readTable,
  refuseIfAny,
  type TableOf,
  type Violation,
} from '../../base/shape.ts';
import { A_PREFIX, nestingViolations } from '../../records/keys.ts';
import { A_STORE } from '../../store/a-store.ts';
import type { Planner } from './api.ts';
import { OPTIONS, readConfig, type WorkerConfig } from './config.ts';
import type { CoordinatorOptions } from './options.ts';

/** Most bytes of a planner's fingerprint (R43). */
export const FINGERPRINT_BYTES_MAX = 64 * 1024;

/** Options as a worker uses them. */
export interface CheckedOptions extends Omit<CoordinatorOptions, 'config'> {
  readonly prefix: string;
  readonly instanceId: string;
  readonly config: WorkerConfig;
  /** What the planner gave as its fingerprint. */
  readonly fingerprint: string;
}

/** The options of `createWorker` and `createCoordinator`. */
export const WORKER_OPTIONS: TableOf<CoordinatorOptions> = {
  job: {
    rule: AN_ID,
    isRequired: true,
    meaning: 'Names the work; all workers with the same job share it.',
  },
  store: { rule: A_STORE, isRequired: true, meaning: 'Where the workers of the job meet.' },
  planner: {
    rule: having('a planner', ['fingerprint', 'plan']),
    isRequired: true,
    meaning: 'Lists the work.',
  },
  prefix: {
    rule: A_PREFIX,
    defaultText: 'leasehold',
    meaning: 'Where the keys of all jobs lie. It must not lead among the keys of another job.',
  },
  instanceId: {
    rule: AN_ID,
    defaultText: 'random',
    meaning: 'Stable name of this process, unique among live ones.',
  },
  logger: {
    rule: A_LOGGER,
    defaultText: 'silent',
    meaning: 'What is logged, and at which level: LOG.md.',
  },
  // Checked by the table of its own options.
  config: {
    rule: { allowed: 'an object of options', check: () => undefined },
    defaultText: '{}',
    meaning: 'Tuning; the options are in README.md.',
  },
  host: {
    rule: aText(),
    defaultText: "''",
    meaning: 'Facts of the host that operators see beside the instance; at most a line.',
  },
  inspect: {
    rule: aFunction('(transition) => void'),
    defaultText: 'none',
    meaning: 'Told of every transition of every chart.',
  },
  clock: { rule: A_CLOCK, defaultText: 'of the host', meaning: 'Time and timers.' },
  random: { rule: A_RANDOM, defaultText: 'of the host', meaning: 'Nonces and jitter.' },
};

/**
 * Checks what a worker is made from, and fills in defaults.
 *
 * @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations.
 */
export function checkWorkerOptions(given: unknown): CheckedOptions {
  const found: Violation[] = [];
  const elsewhere = Object.fromEntries(OPTIONS.map(({ name }) => [name, `config.${name}`]));
  const values = readTable(given, WORKER_OPTIONS, { name: 'options', found, elsewhere });
  const config = readConfig(values.config ?? {}, found);
  const planner = values.planner as Planner | undefined;
  const fingerprint = planner === undefined ? '' : fingerprintOf(planner, found);
  const { prefix = 'leasehold', job, instanceId } = values;
  if (job !== undefined) found.push(...nestingViolations(prefix as string, job as string));
  refuseIfAny(found, 'options');
  return {
    ...(values as unknown as CoordinatorOptions),
    prefix: prefix as string,
    instanceId: (instanceId as string | undefined) ?? randomInstanceId(values.random),
    config,
    fingerprint,
  };
}

function randomInstanceId(random: unknown): string {
  return `worker-${randomId((random as Random | undefined) ?? systemRandom()).slice(0, 12)}`;
}

function fingerprintOf(planner: Planner, found: Violation[]): string {
  const wrong = (value: string, rule: string): string => {
    found.push({ option: 'planner.fingerprint()', value, rule });
    return '';
  };
  let fingerprint: unknown;
  try {
    fingerprint = planner.fingerprint();
  } catch (error) {
    return wrong(
      'thrown',
      `must return a text, made from configuration alone: ${messageOf(error)}`,
    );
  }
  if (typeof fingerprint !== 'string' || fingerprint.length === 0) {
    return wrong(describe(fingerprint), 'must return a string that is not empty');
  }
  const bytes = Buffer.byteLength(fingerprint);
  if (bytes > FINGERPRINT_BYTES_MAX) {
    const rule = `must return at most ${FINGERPRINT_BYTES_MAX} bytes, got ${bytes}; return a hash of it`;
    return wrong(describe(fingerprint), rule);
  }
  return fingerprint;
}
