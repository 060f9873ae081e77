/**
 * What tells two states of a fleet apart.
 *
 * Revisions count up for ever, so they are not part of it: of a remembered revision only whether its key still stands at it
 * can decide anything, and of a stamp only whose unsettled write it is.
 */
import type { Compare, Entry, EtcdState, Outcome, Txn, Write } from './etcd.ts';
import {
  type Fleet,
  type Item,
  keys,
  type Known,
  type Packet,
  type Term,
  type Worker,
} from './model.ts';

/** What counts up for ever, or decides nothing here. */
const COUNTED = { epoch: undefined, generation: undefined, lastFailure: undefined };

/** A value without what counts up for ever. */
interface Token {
  readonly id: number;
  readonly epoch: number;
}

const tokensByObject = new WeakMap<object, Token>();
const idsByText = new Map<string, number>();
/** Every value that was put into a store of some world, but for epochs and generations. */
export const valuesSeen: object[] = [];

function tokenOf(value: object): Token {
  const known = tokensByObject.get(value);
  if (known !== undefined) return known;
  const { epoch } = value as { epoch?: string };
  const text = JSON.stringify({ ...value, ...COUNTED });
  let id = idsByText.get(text);
  if (id === undefined) {
    id = idsByText.size;
    idsByText.set(text, id);
    valuesSeen.push(value);
  }
  const token = { id, epoch: Number(epoch ?? -1) };
  tokensByObject.set(value, token);
  return token;
}

export function keyOfFleet(fleet: Fleet): string {
  const of = new Keying(fleet);
  const packets = fleet.wire.map((packet) => of.packet(packet)).sort();
  return [
    of.etcd(),
    fleet.workers.map((worker) => of.worker(worker)).join('|'),
    fleet.operator === null ? '' : of.item(fleet.operator, undefined),
    fleet.drained.join(),
    packets.join('&'),
    Object.values(fleet.left).join(''),
    fleet.fault ?? '',
  ].join('#');
}

/** Drops copies that can never land any more, and copies of copies that nobody waits for. */
export function dropDeadCopies(fleet: Fleet): void {
  const { etcd } = fleet;
  if (fleet.wire.every(({ isAwaited }) => isAwaited)) return;
  const of = new Keying(fleet);
  const seen = new Set<string>();
  fleet.wire = fleet.wire.filter((packet) => {
    if (packet.isAwaited) return true;
    const { guard, compares, writes } = packet.item.txn;
    if ([...guard, ...compares].some((compare) => isDead(etcd, compare))) return false;
    if (writes.some((write) => 'put' in write && isGone(etcd, write.session))) return false;
    const key = of.packet(packet);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

function isDead(etcd: EtcdState, { key, target, equals }: Compare): boolean {
  if (target === 'session') return !etcd.sessions.includes(equals as string);
  return equals !== 0 && (etcd.entries[key]?.[target] ?? 0) !== equals;
}

function isGone(etcd: EtcdState, session: string | null): boolean {
  return session !== null && !etcd.sessions.includes(session);
}

/** Writes whose answers tell of a lease. */
const FOLDED: ReadonlySet<string> = new Set(['mark', 'claim', 'end', 'orphan']);

/** By the number of workers and splits: they are named alike in every world. */
const keyLists = new Map<string, readonly string[]>();

class Keying {
  readonly #fleet: Fleet;
  /** Stamps of the writes that are not settled. */
  readonly #stamps = new Map<number, string>();
  readonly #sessions = new Map<string, string>();
  /** Of each split. */
  readonly #epochs = new Map<string, number>();

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
    for (const worker of fleet.workers) {
      for (const { kind, about, txn } of worker.items) {
        this.#stamps.set(txn.stamp, `${worker.id}${kind}${about}`);
      }
    }
    if (fleet.operator !== null) this.#stamps.set(fleet.operator.txn.stamp, 'operator');
    for (const split of Object.keys(fleet.workers[0]!.leases)) {
      const { value } = fleet.etcd.entries[keys.split(split)]!;
      this.#epochs.set(split, tokenOf(value).epoch);
    }
    this.#nameSessions();
  }

  etcd(): string {
    const { entries, sessions } = this.#fleet.etcd;
    let text = '';
    for (const key of this.#keys()) {
      const entry = entries[key];
      if (entry === undefined) text += ',';
      else
        text += `${this.#entry(key, entry)}${entry.createRevision === entry.modRevision ? ',' : '+,'}`;
    }
    return `${text};${sessions.map((one) => this.#session(one)).join()}`;
  }

  /** Every key there can be, always in the same order. */
  #keys(): readonly string[] {
    const { workers } = this.#fleet;
    const splits = Object.keys(workers[0]!.leases);
    const name = `${workers.length} ${splits.length}`;
    const known = keyLists.get(name);
    if (known !== undefined) return known;
    const ofSplit = splits.flatMap((one) => [keys.split(one), keys.lease(one), keys.parked(one)]);
    const ofWorker = workers.flatMap(({ id }) => [keys.assignment(id), keys.presence(id)]);
    const list = [keys.plan, keys.leader, ...ofSplit, ...ofWorker];
    keyLists.set(name, list);
    return list;
  }

  worker(worker: Worker): string {
    if (!worker.isUp) return `${worker.id}${worker.process}`;
    const { leading } = worker;
    const tenancies = Object.keys(worker.tenancies)
      .sort()
      .map((split) => `${split}:${this.#tenancy(worker, split)}`);
    const leases = Object.keys(worker.leases).map((split) =>
      this.#known(keys.lease(split), worker.leases[split]!),
    );
    const index = Object.entries(leading.index).map(
      ([split, { status, owner, attempts, revision }]) =>
        `${status}${owner}${attempts}${this.#revision(keys.split(split), revision)}`,
    );
    return [
      `${worker.id}${worker.process}${this.#session(worker.session)}`,
      tenancies.join(),
      leases.join(),
      this.#known(keys.assignment(worker.id), worker.assignment),
      worker.over.join(),
      `${leading.chart.id}${this.#session(leading.session)}${leading.due.join()}${this.#term(leading.term)}`,
      index.join(),
      worker.items.map((item) => this.item(item, worker)).join(),
    ].join('/');
  }

  item(item: Item, worker: Worker | undefined): string {
    const { kind, about, txn, session, ending, answer, isGivenUp } = item;
    const known = FOLDED.has(kind) ? worker : undefined;
    return [
      kind,
      about,
      this.#txn(txn),
      this.#session(session),
      ending,
      isGivenUp ? '?' : '',
      answer === null ? '' : this.#answer(item, answer, known?.leases[about]),
    ].join(' ');
  }

  packet({ from, nonce, item, isAwaited }: Packet): string {
    const { kind, about, txn } = item;
    const stamp = this.#stamp(txn.stamp);
    return `${from}${nonce}${kind}${about}${this.#txn(txn)}${isAwaited ? '!' : ''}${stamp}`;
  }

  #tenancy(worker: Worker, split: string): string {
    const it = worker.tenancies[split]!;
    const flags = [it.isStale, it.hasGrant, it.hasPendingCommit];
    return [
      it.chart.id,
      it.record === null ? '' : this.#value(keys.split(split), it.record),
      this.#revision(keys.split(split), it.revision),
      it.epoch === null ? '' : Number(it.epoch) - this.#epochs.get(split)!,
      it.startWatermark,
      flags.map(Number).join(''),
      it.ending,
    ].join(' ');
  }

  #txn(txn: Txn): string {
    const compares = [...txn.guard, ...txn.compares].map((one) => this.#compare(one));
    return `${compares.join('')}${txn.writes.map((one) => this.#write(one)).join('')}`;
  }

  #compare({ key, target, equals }: Compare): string {
    if (target === 'session') return this.#session(equals as string);
    if (equals === 0) return '0';
    return (this.#fleet.etcd.entries[key]?.[target] ?? 0) === equals ? '=' : 'x';
  }

  /** What an answer says, and whether the worker knows better by now. */
  #answer(item: Item, answer: Outcome, known: Known | undefined): string {
    const isOld = (revision: number): string =>
      known !== undefined && known.revision >= revision ? 'old' : 'new';
    if (answer.kind === 'committed') {
      const main = item.txn.writes[0]!;
      const key = 'put' in main ? main.put : main.delete;
      return `ok${this.#revision(key, answer.revision)}${isOld(answer.revision)}`;
    }
    if (answer.kind !== 'conflict') return answer.kind;
    const found = answer.found.map((entry, index) => {
      if (entry === null) return `-${isOld(answer.revision)}`;
      const at = this.#revision(item.txn.onConflict[index]!, entry.modRevision);
      return `${this.#entry(item.txn.onConflict[index]!, entry)}${at}${isOld(entry.modRevision)}`;
    });
    return `no${found.join('')}`;
  }

  #known(key: string, { entry }: Known): string {
    const now: Entry | undefined = this.#fleet.etcd.entries[key];
    if (entry === null) return now === undefined ? '=' : '-';
    if (entry.modRevision === now?.modRevision) return '=';
    return this.#entry(key, entry);
  }

  #revision(key: string, revision: number): string {
    if (revision === 0) return '0';
    return this.#fleet.etcd.entries[key]?.modRevision === revision ? '=' : 'x';
  }

  #stamp(stamp: number): string {
    return this.#stamps.get(stamp) ?? '';
  }

  #entry(key: string, { value, session, stamp }: Entry): string {
    return `${this.#value(key, value)}@${this.#session(session)}${this.#stamp(stamp)}`;
  }

  #write(write: Write): string {
    if ('delete' in write) return `-${write.delete}`;
    return `${this.#value(write.put, write.value)}@${this.#session(write.session)}`;
  }

  /** Epochs count from that of the split’s record. */
  #value(key: string, value: object): string {
    const { id, epoch } = tokenOf(value);
    if (epoch < 0) return String(id);
    return `${id}~${epoch - this.#epochs.get(key.slice(key.indexOf('/') + 1))!}`;
  }

  #session(session: string | null): string {
    return session === null ? '' : (this.#sessions.get(session) ?? 'gone');
  }

  #term(term: Term | null): string {
    if (term === null) return '';
    const { createRevision } = this.#fleet.etcd.entries[keys.leader] ?? {};
    return createRevision === term.createRevision ? '=' : 'x';
  }

  /** Sessions by what they are to their worker: its own, its leader’s, or left over. */
  #nameSessions(): void {
    const { etcd, workers } = this.#fleet;
    for (const { id, session, leading } of workers) {
      if (session !== null && etcd.sessions.includes(session)) this.#sessions.set(session, id);
      if (leading.session !== null && etcd.sessions.includes(leading.session)) {
        this.#sessions.set(leading.session, `${id}L`);
      }
    }
    for (const session of etcd.sessions) {
      if (!this.#sessions.has(session))
        this.#sessions.set(session, `${session[0]}${this.#sessions.size}`);
    }
  }
}
