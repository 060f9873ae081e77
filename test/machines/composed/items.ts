/** Writes on their way: sent, landed, heard of or not, sent again (R1). */
import { transact, type Txn } from './etcd.ts';
import { type Fleet, type Item, nonceOf, type Place, spend, type Worker } from './model.ts';
import { faultOfLanding } from './invariants.ts';

type NewItem = Pick<Item, 'kind' | 'about'> & {
  readonly txn: Omit<Txn, 'stamp' | 'guard'> & { readonly guard?: Txn['guard'] };
} & Partial<Pick<Item, 'session' | 'record' | 'ending' | 'term'>>;

/** Makes a write and gives it a stamp of its own. */
function itemOf(fleet: Fleet, { txn, ...rest }: NewItem): Item {
  fleet.stamps += 1;
  return {
    session: null,
    record: null,
    ending: null,
    term: null,
    ...rest,
    txn: { guard: [], ...txn, stamp: fleet.stamps },
    answer: null,
    isGivenUp: false,
  };
}

/** A worker sends a write, and will settle it. */
export function enqueue({ fleet, worker }: Place, what: NewItem): void {
  const item = itemOf(fleet, what);
  worker.items = [...worker.items, item].sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
  send(fleet, worker.id, nonceOf(worker), item);
}

/** The operator does. */
export function enqueueForOperator(fleet: Fleet, what: NewItem): void {
  fleet.operator = itemOf(fleet, what);
  send(fleet, 'operator', 'o1', fleet.operator);
}

function orderOf({ kind, about }: Item): string {
  return `${kind} ${about}`;
}

function send(fleet: Fleet, from: string, nonce: string, item: Item): void {
  fleet.wire.push({ from, nonce, item, isAwaited: true });
}

export function itemFor(worker: Worker, kind: Item['kind'], about: string): Item | undefined {
  return worker.items.find((item) => item.kind === kind && item.about === about);
}

/** The copy under way that a sender waits for. */
function awaitedCopy(fleet: Fleet, item: Item): number {
  return fleet.wire.findIndex(
    (packet) => packet.isAwaited && packet.item.txn.stamp === item.txn.stamp,
  );
}

/** Nobody waits for this write any more; copies under way may land all the same. */
export function abandon(fleet: Fleet, worker: Worker, item: Item): void {
  worker.items = worker.items.filter((one) => one !== item);
  release(fleet, item);
}

/** Nobody waits for the copy under way. */
export function release(fleet: Fleet, item: Item): void {
  const index = awaitedCopy(fleet, item);
  if (index >= 0) fleet.wire[index] = { ...fleet.wire[index]!, isAwaited: false };
}

/** The answer, or the question, is lost: the same write is sent again, byte for byte. */
export function sendAgain(fleet: Fleet, worker: Worker, item: Item): void {
  spend(fleet, 'unheard');
  release(fleet, item);
  if (item.answer !== null) replace(worker, item, { ...item, answer: null });
  send(fleet, worker.id, nonceOf(worker), item);
}

/** A write is given up without an answer: it is dropped, or looked into by reading where R1 is left out. */
export function giveUp(fleet: Fleet, worker: Worker, item: Item): void {
  spend(fleet, 'unheard');
  release(fleet, item);
  replace(worker, item, { ...item, answer: null, isGivenUp: true });
}

function replace(worker: Worker, item: Item, next: Item): void {
  worker.items = worker.items.map((one) => (one === item ? next : one));
}

/** A copy reaches the store. */
export function land(fleet: Fleet, index: number): void {
  const packet = fleet.wire[index]!;
  fleet.wire.splice(index, 1);
  const before = { ...fleet.etcd.entries };
  const outcome = transact(fleet.etcd, packet.item.txn);
  if (outcome.kind === 'committed') {
    fleet.fault ??= faultOfLanding(before, fleet.etcd.entries, packet);
  }
  if (!packet.isAwaited) return;
  const { stamp } = packet.item.txn;
  if (packet.from === 'operator') {
    if (fleet.operator?.txn.stamp === stamp)
      fleet.operator = { ...fleet.operator, answer: outcome };
    return;
  }
  const worker = fleet.workers.find(({ id }) => id === packet.from)!;
  const item = worker.items.find((one) => one.txn.stamp === stamp);
  if (item !== undefined) replace(worker, item, { ...item, answer: outcome });
}
