/** What an etcd store is made from, and the check that every option passes. */
import { readFileSync } from 'node:fs';
import type { Clock } from '../../base/clock.ts';
import { LeaseholdError, messageOf } from '../../base/errors.ts';
import { describe } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import { type EtcdTlsOptions, readCredentials } from './certificates.ts';

/** A user of etcd and the password; tokens are fetched and renewed by the store. */
export interface EtcdAuthOptions {
  readonly username: string;
  /**
   * The password, or a function that returns it. The function is called for each log-in, so that a password may be replaced
   * at any time; what it throws is told as `E_STORE_DENIED`, and it is called again for the next call.
   */
  readonly password: string | (() => string);
}

/** How an etcd store is made. */
export interface EtcdStoreOptions {
  /**
   * `http://host:port` or `https://host:port` of the members, all of one kind. The first one that answers is used as long
   * as it does, and left for the next one when it is silent for two seconds: give the processes of a fleet different orders
   * to spread the load. A host name is looked up anew for every connection, and of several addresses the first that serves
   * is used; a connection that works is kept when the name moves.
   *
   * All must be members of one cluster. Each is asked once, behind the first answer, and later when it was not reached;
   * where two clusters answer at the same time, every call from then on is refused with `E_CLUSTERS_MIXED`. When a cluster
   * has taken the place of another one, that is told as a reset, up to two seconds late if a member does not answer.
   */
  readonly endpoints: readonly string[];
  /** Needs `https` endpoints. */
  readonly tls?: EtcdTlsOptions;
  readonly auth?: EtcdAuthOptions;
  /** The clock of the host when absent. Deadlines on the wire always pass in real time. */
  readonly clock?: Clock;
  /** Spreads reconnections; the randomness of the host when absent. */
  readonly random?: Random;
}

/** One broken rule; the same form as in the configuration of a worker. */
interface Violation {
  readonly option: string;
  readonly value: string;
  readonly rule: string;
}

const OPTION_NAMES = ['endpoints', 'tls', 'auth', 'clock', 'random'];
const TLS_NAMES = ['caFile', 'certFile', 'keyFile'] as const;
const AUTH_NAMES = ['username', 'password'];
const ENDPOINT = /^https?:\/\/([^/:?#@[\]\s]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$/;

/**
 * Checks every rule.
 *
 * @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations. No password is in it.
 */
export function checkOptions(options: EtcdStoreOptions): void {
  const given: unknown = options;
  const violations = isRecord(given)
    ? [
        ...unknownNames('', given, OPTION_NAMES),
        ...endpointViolations(given.endpoints),
        ...tlsViolations(given.tls, given.endpoints),
        ...authViolations(given.auth),
      ]
    : [{ option: 'options', value: describe(given), rule: 'must be an object' }];
  if (violations.length === 0) return;
  const lines = violations.map(({ option, value, rule }) => `${option} = ${value}: ${rule}`);
  throw new LeaseholdError('E_CONFIG_INVALID', `invalid etcd options: ${lines.join('; ')}`, {
    details: { violations },
  });
}

function endpointViolations(endpoints: unknown): Violation[] {
  if (!Array.isArray(endpoints) || endpoints.length === 0) {
    const rule = 'must be a list of at least one endpoint';
    return [{ option: 'endpoints', value: describe(endpoints), rule }];
  }
  const all: readonly unknown[] = endpoints;
  const violations = all.flatMap((endpoint, index) => {
    const option = `endpoints[${index}]`;
    if (typeof endpoint !== 'string' || !ENDPOINT.test(endpoint)) {
      const rule = 'must be http://host:port or https://host:port, without path, user or slash';
      return [{ option, value: describe(endpoint), rule }];
    }
    if (all.indexOf(endpoint) === index) return [];
    return [{ option, value: describe(endpoint), rule: 'is listed twice' }];
  });
  const schemes = new Set(all.map(schemeOf).filter((scheme) => scheme !== undefined));
  if (schemes.size > 1) {
    const rule = 'must be all http or all https';
    violations.push({ option: 'endpoints', value: describe(endpoints), rule });
  }
  return violations;
}

function tlsViolations(tls: unknown, endpoints: unknown): Violation[] {
  if (tls === undefined) return [];
  if (!isRecord(tls)) return [{ option: 'tls', value: describe(tls), rule: 'must be an object' }];
  const violations = unknownNames('tls.', tls, TLS_NAMES);
  for (const name of TLS_NAMES) {
    const problem = fileProblem(tls[name]);
    if (problem === undefined) continue;
    violations.push({ option: `tls.${name}`, value: describe(tls[name]), rule: problem });
  }
  if ((tls.certFile === undefined) !== (tls.keyFile === undefined)) {
    const missing = tls.certFile === undefined ? 'certFile' : 'keyFile';
    const rule = 'a certificate and its key are given together';
    violations.push({ option: `tls.${missing}`, value: 'undefined', rule });
  }
  if (violations.length === 0) {
    const problem = credentialsProblem(tls);
    if (problem !== undefined) {
      violations.push({ option: 'tls', value: describe(tls), rule: problem });
    }
  }
  if (Array.isArray(endpoints) && endpoints.some((endpoint) => schemeOf(endpoint) === 'http')) {
    const rule = 'needs https endpoints';
    violations.push({ option: 'tls', value: describe(tls), rule });
  }
  return violations;
}

function authViolations(auth: unknown): Violation[] {
  if (auth === undefined) return [];
  // Shown by its type only: it may hold a password.
  if (!isRecord(auth)) return [{ option: 'auth', value: typeof auth, rule: 'must be an object' }];
  const violations = unknownNames('auth.', auth, AUTH_NAMES);
  for (const name of AUTH_NAMES) {
    const value = auth[name];
    if (typeof value === 'string' ? value !== '' : isPasswordFunction(name, value)) continue;
    const rule =
      name === 'password'
        ? 'must be a string that is not empty, or a function that returns one'
        : 'must be a string that is not empty';
    violations.push({ option: `auth.${name}`, value: typeof value, rule });
  }
  return violations;
}

function isPasswordFunction(name: string, value: unknown): boolean {
  return name === 'password' && typeof value === 'function';
}

function unknownNames(
  path: string,
  given: Readonly<Record<string, unknown>>,
  names: readonly string[],
): Violation[] {
  return Object.keys(given)
    .filter((name) => !names.includes(name) && given[name] !== undefined)
    .map((name) => ({
      option: `${path}${name}`,
      value: typeof given[name],
      rule: `is no option; the options are ${names.join(', ')}`,
    }));
}

function fileProblem(file: unknown): string | undefined {
  if (file === undefined) return undefined;
  if (typeof file !== 'string' || file === '') return 'must be the path of a file';
  try {
    return readFileSync(file).length === 0 ? 'is an empty file' : undefined;
  } catch (error) {
    return `cannot be read (${messageOf(error)})`;
  }
}

function credentialsProblem(tls: EtcdTlsOptions): string | undefined {
  try {
    readCredentials(tls);
    return undefined;
  } catch (error) {
    return `cannot be used (${messageOf(error)})`;
  }
}

function schemeOf(endpoint: unknown): string | undefined {
  return typeof endpoint === 'string' ? /^https?(?=:)/.exec(endpoint)?.[0] : undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
