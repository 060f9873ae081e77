/**
 * A small client of etcd's HTTP gateway: what the tests ask of etcd beside the store under test, on connections of their
 * own. Bytes are base64 there; the callers see strings. Numbers of 64 bits are strings on the wire and bigints here.
 */
import http from 'node:http';
import https from 'node:https';
import { patiently } from '../../../support/patience.js';

const TIMEOUT_MS = 10_000;

/** What a TLS client shows and trusts, as PEM. */
export interface ClientTls {
  readonly ca: string;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** One version of a key. */
export interface KeyValue {
  readonly key: string;
  readonly value: string;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  readonly version: bigint;
  /** The lease it hangs on; 0 for none. */
  readonly lease: bigint;
}

/** What a member says of itself. */
export interface Status {
  readonly clusterId: string;
  readonly memberId: string;
  /** The member that leads; `'0'` for none. */
  readonly leaderId: string;
  readonly raftTerm: bigint;
  readonly revision: bigint;
  readonly dbSize: bigint;
}

/** Which store it is, and how far it is. */
export interface Position {
  readonly clusterId: string;
  readonly revision: bigint;
}

/** As first key and as end of a range: every key. */
export const FIRST_KEY = Buffer.from([0]).toString('base64');

export type Json = Readonly<Record<string, unknown>>;

/** etcd answered with an error. */
export class GatewayError extends Error {}

export class Gateway {
  private readonly endpoint: string;
  private readonly tls: ClientTls | undefined;
  private user: { readonly name: string; readonly password: string } | undefined;
  private authorization: string | undefined;

  constructor(endpoint: string, tls?: ClientTls) {
    this.endpoint = endpoint;
    this.tls = tls;
  }

  async isHealthy(): Promise<boolean> {
    try {
      const { body } = await this.send('GET', '/health', undefined, 2_000);
      return (JSON.parse(body) as Json).health === 'true';
    } catch {
      return false;
    }
  }

  /** Calls any method of the gateway: `kv/put`, `lease/grant`. */
  async call(method: string, request: Json, timeoutMs = patiently(TIMEOUT_MS)): Promise<Json> {
    try {
      return await this.attempt(method, request, timeoutMs);
    } catch (error) {
      const isOutdated = error instanceof GatewayError && error.message.includes('auth token');
      if (!isOutdated || this.user === undefined) throw error;
      await this.logIn(this.user.name, this.user.password);
      return await this.attempt(method, request, timeoutMs);
    }
  }

  private async attempt(method: string, request: Json, timeoutMs: number): Promise<Json> {
    const { status, body } = await this.send(
      'POST',
      `/v3/${method}`,
      JSON.stringify(request),
      timeoutMs,
    );
    const answer = parse(body);
    if (status !== 200) throw new GatewayError(`${method}: ${body.trim()}`);
    return answer;
  }

  /** Writes a key and returns the revision. */
  async put(key: string, value: string, lease?: bigint): Promise<bigint> {
    const onLease = lease === undefined ? {} : { lease: String(lease) };
    return revisionOf(
      await this.call('kv/put', { key: encode(key), value: encode(value), ...onLease }),
    );
  }

  async delete(key: string): Promise<bigint> {
    return revisionOf(await this.call('kv/deleterange', { key: encode(key) }));
  }

  async get(key: string): Promise<KeyValue | null> {
    const { kvs } = await this.call('kv/range', { key: encode(key) });
    const [found] = (kvs as Json[] | undefined) ?? [];
    return found === undefined ? null : keyValueOf(found);
  }

  /** Every key that starts with `prefix`. */
  async list(prefix: string): Promise<KeyValue[]> {
    const { kvs } = await this.call('kv/range', {
      key: encode(prefix),
      range_end: endOfPrefix(prefix),
    });
    return ((kvs as Json[] | undefined) ?? []).map(keyValueOf);
  }

  /** Opens a lease and returns its id and the seconds it was granted. */
  async grant(ttlSeconds: number): Promise<{ id: bigint; ttlSeconds: number }> {
    const { ID, TTL } = await this.call('lease/grant', { TTL: ttlSeconds });
    return { id: BigInt(ID as string), ttlSeconds: Number(TTL) };
  }

  async revoke(lease: bigint): Promise<void> {
    await this.call('lease/revoke', { ID: String(lease) });
  }

  /** Drops what happened before a revision; watches from before it are cancelled. */
  async compact(revision: bigint): Promise<void> {
    await this.call('kv/compaction', { revision: String(revision), physical: true });
  }

  /** Where the store is now: no write that was answered before is missing from it. */
  async position(timeoutMs?: number): Promise<Position> {
    const answer = await this.call(
      'kv/range',
      { key: FIRST_KEY, range_end: FIRST_KEY, count_only: true },
      timeoutMs,
    );
    return positionOf(answer);
  }

  async status(timeoutMs?: number): Promise<Status> {
    const answer = await this.call('maintenance/status', {}, timeoutMs);
    const header = answer.header as Json;
    return {
      clusterId: String(header.cluster_id),
      memberId: String(header.member_id),
      leaderId: (answer.leader as string | undefined) ?? '0',
      raftTerm: BigInt((header.raft_term as string | undefined) ?? 0),
      revision: revisionOf(answer),
      dbSize: BigInt((answer.dbSize as string | undefined) ?? 0),
    };
  }

  /** Where the other members find the one that answers; null when it does not say. */
  async peerUrl(): Promise<string | null> {
    try {
      const answer = await this.call('cluster/member/list', {});
      const members = (answer.members as { ID: string; peerURLs: string[] }[] | undefined) ?? [];
      const { member_id: self } = answer.header as Json;
      return members.find(({ ID }) => ID === self)?.peerURLs[0] ?? null;
    } catch {
      return null;
    }
  }

  /** Makes every later call as this user, and renews its token. */
  async logIn(name: string, password: string): Promise<void> {
    this.user = undefined;
    this.authorization = undefined;
    const { token } = await this.call('auth/authenticate', { name, password });
    this.authorization = String(token);
    this.user = { name, password };
  }

  /** Sends a request whose answer is a stream of JSON lines; the caller destroys it. */
  stream(method: string, request: Json): http.ClientRequest {
    const sent = this.open('POST', `/v3/${method}`);
    sent.end(JSON.stringify(request));
    return sent;
  }

  private send(
    method: string,
    path: string,
    body: string | undefined,
    timeoutMs: number,
  ): Promise<{ status: number; body: string }> {
    return new Promise((resolve, reject) => {
      const request = this.open(method, path);
      const timer = setTimeout(
        () => request.destroy(new Error(`${path}: no answer within ${timeoutMs} ms`)),
        timeoutMs,
      );
      request.once('close', () => clearTimeout(timer));
      request.once('error', reject);
      request.once('response', (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (text += chunk));
        response.once('error', reject);
        response.once('end', () => resolve({ status: response.statusCode ?? 0, body: text }));
      });
      request.end(body);
    });
  }

  private open(method: string, path: string): http.ClientRequest {
    const headers = this.authorization === undefined ? {} : { authorization: this.authorization };
    // A connection per request: nothing stays open behind a test.
    const options = { method, headers, agent: false as const };
    const url = new URL(path, this.endpoint);
    if (this.tls === undefined) return http.request(url, options);
    const { ca, cert, key } = this.tls;
    return https.request(url, { ...options, ca, cert, key });
  }
}

/** The key after every key that starts with `prefix`, as the gateway takes it. */
export function endOfPrefix(prefix: string): string {
  const bytes = Buffer.from(prefix);
  // Bytes of UTF-8 never reach 255, so the last one can rise.
  bytes[bytes.length - 1]! += 1;
  return bytes.toString('base64');
}

/** Text as the gateway takes it. */
export function encode(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** A key as the gateway answers it: fields that are 0 or empty are left out there. */
export function keyValueOf(json: Json): KeyValue {
  const number = (name: string): bigint => BigInt((json[name] as string | undefined) ?? 0);
  const text = (name: string): string =>
    Buffer.from((json[name] as string | undefined) ?? '', 'base64').toString('utf8');
  return {
    key: text('key'),
    value: text('value'),
    createRevision: number('create_revision'),
    modRevision: number('mod_revision'),
    version: number('version'),
    lease: number('lease'),
  };
}

/** The header of an answer. */
export function positionOf(answer: Json): Position {
  const header = answer.header as Json | undefined;
  return { clusterId: String(header?.cluster_id), revision: revisionOf(answer) };
}

function revisionOf(answer: Json): bigint {
  return BigInt(((answer.header as Json | undefined)?.revision as string | undefined) ?? 0);
}

function parse(body: string): Json {
  try {
    return JSON.parse(body) as Json;
  } catch {
    return {};
  }
}
