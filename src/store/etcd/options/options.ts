/** What an etcd store is made from, and the check that every option passes. */
import { readFileSync } from 'node:fs';
import type { Clock } from '../../../base/clock.ts';
import { messageOf } from '../../../base/errors.ts';
import { describe } from '../../../base/ids.ts';
import type { Random } from '../../../base/random.ts';
import { A_CLOCK, A_RANDOM } from '../../../base/rules.ts';
import {
  aText,
  type Field,
  isPlainObject,
  mustBe,
  mustPass,
  readTable,
  refuseIfAny,
  type TableOf,
  type Violation,
} from '../../../base/shape.ts';
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

/** Whether a proxy may lie before etcd. */
export type EtcdProxy = 'none' | 'environment';

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
  /**
   * `none` when absent: the endpoints are connected to directly, whatever the environment says, because its `http_proxy` is
   * seldom meant for a coordination store. With `environment` the first of `grpc_proxy`, `https_proxy` and `http_proxy` is
   * asked to connect to each endpoint that `no_grpc_proxy`, or else `no_proxy`, does not except; errors name it then.
   */
  readonly proxy?: EtcdProxy;
  /** The clock of the host when absent. Deadlines on the wire always pass in real time. */
  readonly clock?: Clock;
  /** Spreads reconnections; the randomness of the host when absent. */
  readonly random?: Random;
}

const ENDPOINT = /^https?:\/\/([^/:?#@[\]\s]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$/;
const AN_ENDPOINT =
  'http://host:port or https://host:port of one kind, without path, user or slash, none twice';

const TLS_OPTIONS: TableOf<EtcdTlsOptions> = {
  caFile: fileField('Whose certificates are believed.'),
  certFile: fileField('Own certificate; with keyFile.'),
  keyFile: fileField('Its key.'),
};

const AUTH_OPTIONS: TableOf<EtcdAuthOptions> = {
  username: {
    rule: aText('a string that is not empty', /[^]/),
    isRequired: true,
    isSecret: true,
    meaning: 'Who logs in.',
  },
  password: {
    rule: mustBe(
      'a string that is not empty, or a function that returns one',
      (value) => typeof value === 'function' || (typeof value === 'string' && value !== ''),
    ),
    isRequired: true,
    isSecret: true,
    meaning: 'Asked for each log-in when it is a function.',
  },
};

/** The options of `etcdStore`. */
export const ETCD_OPTIONS: TableOf<EtcdStoreOptions> = {
  endpoints: {
    rule: { allowed: `a list of ${AN_ENDPOINT}`, check: checkEndpoints },
    isRequired: true,
    meaning: 'The members of one cluster.',
  },
  tls: {
    rule: { allowed: 'an object with caFile, certFile and keyFile', check: checkTls },
    defaultText: 'none',
    meaning: 'Needs https endpoints.',
  },
  auth: {
    rule: { allowed: 'an object with username and password', check: checkAuth },
    defaultText: 'none',
    isSecret: true,
    meaning: 'A user of etcd; tokens are fetched and renewed by the store.',
  },
  proxy: {
    rule: mustBe("'none' or 'environment'", (value) => value === 'none' || value === 'environment'),
    defaultText: "'none'",
    meaning: 'Whether a proxy that the environment names is gone through.',
  },
  clock: { rule: A_CLOCK, defaultText: 'of the host', meaning: 'Times retries and sessions.' },
  random: { rule: A_RANDOM, defaultText: 'of the host', meaning: 'Spreads reconnections.' },
};

/**
 * Checks every rule.
 *
 * @returns What was given, read once.
 * @throws LeaseholdError `E_CONFIG_INVALID` that lists all violations. No password is in it.
 */
export function checkOptions(given: unknown): EtcdStoreOptions {
  const found: Violation[] = [];
  const values = readTable(given, ETCD_OPTIONS, { name: 'options', found, hasSecrets: true });
  const { tls } = values;
  const hasPlain = isPlainObject(given) && hasPlainEndpoint(given.endpoints);
  if (hasPlain && (tls !== undefined || found.some(({ option }) => option.startsWith('tls.')))) {
    found.push({ option: 'tls', value: describe(tls), rule: 'needs https endpoints' });
  }
  refuseIfAny(found, 'etcd options');
  return values as unknown as EtcdStoreOptions;
}

function checkEndpoints(endpoints: unknown, name: string, found: Violation[]): void {
  if (!Array.isArray(endpoints) || endpoints.length === 0) {
    const rule = 'must be a list of at least one endpoint';
    found.push({ option: name, value: describe(endpoints), rule });
    return;
  }
  const all: readonly unknown[] = endpoints;
  for (const [index, endpoint] of all.entries()) {
    const option = `${name}[${index}]`;
    if (typeof endpoint !== 'string' || !ENDPOINT.test(endpoint)) {
      const rule = 'must be http://host:port or https://host:port, without path, user or slash';
      found.push({ option, value: describe(endpoint), rule });
    } else if (all.indexOf(endpoint) !== index) {
      found.push({ option, value: describe(endpoint), rule: 'is listed twice' });
    }
  }
  const schemes = new Set(all.map(schemeOf).filter((scheme) => scheme !== undefined));
  if (schemes.size <= 1) return;
  found.push({ option: name, value: describe(endpoints), rule: 'must be all http or all https' });
}

function hasPlainEndpoint(endpoints: unknown): boolean {
  return Array.isArray(endpoints) && endpoints.some((endpoint) => schemeOf(endpoint) === 'http');
}

function checkTls(tls: unknown, name: string, found: Violation[]): void {
  const before = found.length;
  readTable(tls, TLS_OPTIONS, { name, prefix: `${name}.`, found, hasSecrets: true });
  if (!isPlainObject(tls)) return;
  const { certFile, keyFile } = tls as EtcdTlsOptions;
  if ((certFile === undefined) !== (keyFile === undefined)) {
    const missing = certFile === undefined ? 'certFile' : 'keyFile';
    const rule = 'a certificate and its key are given together';
    found.push({ option: `${name}.${missing}`, value: 'undefined', rule });
  }
  if (found.length > before) return;
  const problem = credentialsProblem(tls);
  if (problem !== undefined) found.push({ option: name, value: describe(tls), rule: problem });
}

function checkAuth(auth: unknown, name: string, found: Violation[]): void {
  readTable(auth, AUTH_OPTIONS, { name, prefix: `${name}.`, found, hasSecrets: true });
}

function fileField(meaning: string): Field {
  return { rule: mustPass('the path of a file', fileProblem), defaultText: 'none', meaning };
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
