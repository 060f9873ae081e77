/**
 * Records every version of every key of a real etcd, by a raw watch from the first revision on connections that no test
 * cuts and that share nothing with the store under test. Proves that nothing is missing; the checks read nothing else.
 */
import type { ClientRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { historyViolations } from '../../../../src/testing/checks/history-checks.ts';
import type { HistoryEntry } from '../../../../src/testing/checks/history-checks.ts';
import { atEnd } from '../server/cleanup.ts';
import { FIRST_KEY, keyValueOf, positionOf } from '../server/gateway.ts';
import type { Gateway, Json, KeyValue, Position } from '../server/gateway.ts';
import { patiently } from '../../../support/patience.js';

/** One version of a key as etcd told it. */
export interface RecordedEntry extends HistoryEntry {
  /** Counts the versions of one life of a key from 1; 0 for a delete. */
  readonly version: bigint;
  /** The revision in which this life of the key began; 0 for a delete. */
  readonly createRevision: bigint;
}

/** A version, and when it was heard of on the monotonic clock of this process. */
export interface HeardEntry extends RecordedEntry {
  readonly heardMs: number;
}

export interface HistoryRecorder {
  /** Everything seen so far, oldest first. */
  readonly entries: readonly HeardEntry[];
  /** Waits until everything that has been answered by now is recorded. */
  settled(timeoutMs?: number): Promise<void>;
  /** What shows that something is missing; empty when every revision and every version is there. */
  gaps(): string[];
  /** `settled`, then all gaps and violations of the protocol. */
  verify(): Promise<string[]>;
  stop(): Promise<void>;
}

/** A watch that has told nothing for this long while the store went on is opened anew, at the next member. */
const SILENCE_MS = 2_000;
const RETRY_MS = 50;

/** Starts recording; with several members, a connection that ends is opened again at the next one. */
export function startRecorder(gateways: Gateway | readonly Gateway[]): HistoryRecorder {
  return new WatchRecorder([gateways].flat());
}

class WatchRecorder implements HistoryRecorder {
  readonly entries: HeardEntry[] = [];
  readonly #gateways: readonly Gateway[];
  readonly #done: Promise<void>;
  readonly #forget: () => void;
  readonly #stopped = new AbortController();
  readonly #missing: string[] = [];
  /** The store that is recorded now, and the last revision seen of it. */
  #store: Position | null = null;
  /** Counts the stores and their restorations. */
  #lives = 0;
  #turn = 0;
  #request: ClientRequest | undefined;
  #lastProblem: unknown;

  constructor(gateways: readonly Gateway[]) {
    this.#gateways = gateways;
    this.#done = this.#run();
    this.#forget = atEnd(() => this.stop());
  }

  async settled(timeoutMs = patiently(20_000)): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    while (performance.now() < deadline) {
      const goal = await this.#position().catch((error: unknown) => {
        this.#lastProblem = error;
        return null;
      });
      if (goal !== null && (await this.#reaches(goal))) return;
      // The member that is watched may be stopped: its connection stays open for ever.
      this.#request?.destroy();
      await sleep(RETRY_MS);
    }
    throw new Error(`not everything was recorded within ${timeoutMs} ms`, {
      cause: this.#lastProblem,
    });
  }

  gaps(): string[] {
    return [...this.#missing, ...gapsOf(this.entries)];
  }

  async verify(): Promise<string[]> {
    await this.settled();
    return [...this.gaps(), ...historyViolations(this.entries)];
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#request?.destroy();
    await this.#done;
    this.#forget();
  }

  async #reaches(goal: Position): Promise<boolean> {
    const deadline = performance.now() + patiently(SILENCE_MS);
    while (performance.now() < deadline) {
      const { clusterId, revision } = this.#store ?? { clusterId: '', revision: 0n };
      if (clusterId === goal.clusterId && revision >= goal.revision) return true;
      await sleep(5);
    }
    return false;
  }

  /** Of any member that answers with a quorum behind it. */
  #position(): Promise<Position> {
    return Promise.any(this.#gateways.map((gateway) => gateway.position(patiently(SILENCE_MS))));
  }

  async #run(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const gateway = this.#gateways[this.#turn % this.#gateways.length]!;
      try {
        // Also renews the token: a watch cannot.
        this.#notice(await gateway.position(patiently(SILENCE_MS)));
        await this.#watch(gateway);
      } catch (error) {
        this.#lastProblem = error;
      }
      this.#turn += 1;
      await sleep(RETRY_MS, undefined, { signal: this.#stopped.signal }).catch(() => undefined);
    }
  }

  /** A store with another id, or one that went back in time, is recorded from its first revision. */
  #notice(found: Position): void {
    const { clusterId, revision } = this.#store ?? {};
    if (clusterId === found.clusterId && revision! <= found.revision) return;
    this.#lives += 1;
    // The first write of a store is revision 2.
    this.#store = { clusterId: found.clusterId, revision: 1n };
  }

  /** Ends when the connection does, by whatever side. */
  #watch(gateway: Gateway): Promise<void> {
    const from = this.#store!.revision + 1n;
    const request = gateway.stream('watch', {
      create_request: { key: FIRST_KEY, range_end: FIRST_KEY, start_revision: String(from) },
    });
    this.#request = request;
    if (this.#stopped.signal.aborted) request.destroy();
    return new Promise((resolve) => {
      request.once('error', (error) => {
        this.#lastProblem = error;
      });
      request.once('close', resolve);
      request.once('response', (response) => {
        let rest = '';
        response.setEncoding('utf8');
        response.once('error', () => request.destroy());
        response.once('end', () => request.destroy());
        response.on('data', (chunk: string) => {
          const lines = (rest + chunk).split('\n');
          rest = lines.pop()!;
          for (const line of lines) {
            if (this.#request === request && !request.destroyed) this.#take(line, request);
          }
        });
      });
    });
  }

  #take(line: string, request: ClientRequest): void {
    const { result, error } = JSON.parse(line) as { result?: Json; error?: unknown };
    if (result === undefined) {
      this.#lastProblem = error;
      request.destroy();
      return;
    }
    const { clusterId } = positionOf(result);
    if (result.canceled === true) {
      const compacted = BigInt((result.compact_revision as string | undefined) ?? 0);
      this.#lastProblem = result;
      if (compacted > this.#store!.revision) this.#skipTo(compacted);
      request.destroy();
      return;
    }
    // Replaced between the question and the watch.
    if (clusterId !== this.#store!.clusterId) {
      request.destroy();
      return;
    }
    for (const event of (result.events as Json[] | undefined) ?? []) {
      const isDelete = event.type === 'DELETE';
      this.#record(keyValueOf(event.kv as Json), isDelete);
    }
  }

  #skipTo(compacted: bigint): void {
    const { clusterId, revision } = this.#store!;
    this.#missing.push(`${this.#life}: ${revision + 1n} to ${compacted - 1n} were compacted away`);
    this.#store = { clusterId, revision: compacted - 1n };
  }

  #record(kv: KeyValue, isDelete: boolean): void {
    this.entries.push({
      cluster: this.#life,
      key: kv.key,
      value: isDelete ? null : kv.value,
      revision: String(kv.modRevision),
      session: kv.lease === 0n ? null : String(kv.lease),
      version: isDelete ? 0n : kv.version,
      createRevision: isDelete ? 0n : kv.createRevision,
      heardMs: performance.now(),
    });
    this.#store = { clusterId: this.#store!.clusterId, revision: kv.modRevision };
  }

  get #life(): string {
    return `${this.#store!.clusterId}.${this.#lives}`;
  }
}

/**
 * Where versions are missing: etcd raises its revision by one for each transaction that writes, and numbers the versions
 * of each life of a key from 1.
 */
export function gapsOf(entries: readonly RecordedEntry[]): string[] {
  const found: string[] = [];
  const keys = new Map<string, RecordedEntry>();
  let last: RecordedEntry | undefined;
  for (const entry of entries) {
    const where = `${entry.cluster} ${entry.key} @${entry.revision}`;
    const previous = last?.cluster === entry.cluster ? BigInt(last.revision) : 1n;
    const step = BigInt(entry.revision) - previous;
    const isFirst = last?.cluster !== entry.cluster;
    if (step !== 1n && (step !== 0n || isFirst)) {
      found.push(`${where}: follows revision ${previous}`);
    }
    last = entry;
    const name = `${entry.cluster} ${entry.key}`;
    const before = keys.get(name);
    keys.set(name, entry);
    const problem = lifeProblem(before, entry);
    if (problem !== null) found.push(`${where}: ${problem}`);
  }
  return found;
}

function lifeProblem(before: RecordedEntry | undefined, entry: RecordedEntry): string | null {
  const isAlive = before !== undefined && before.value !== null;
  if (entry.value === null) return isAlive ? null : 'deleted, but it was not there';
  const version = isAlive ? before.version + 1n : 1n;
  if (entry.version !== version) return `version ${entry.version} instead of ${version}`;
  const birth = isAlive ? before.createRevision : BigInt(entry.revision);
  return entry.createRevision === birth ? null : `created at ${entry.createRevision}, not ${birth}`;
}
