/** What happened to a fleet, as tests read it: events with their times, writes of one key, sessions in the store. */
import { type CoordinationEvent, isLeaseholdError } from '../../src/index.ts';
import type { InstanceId, SessionId } from '../../src/base/ids.ts';
import {
  planCodec,
  type PlanRecord,
  splitCodec,
  type SplitRecord,
} from '../../src/records/records.ts';
import type { AuditRecord } from '../../src/store/memory.ts';
import type { StoreCall } from '../../src/store/faults.ts';
import type { AnyFleet, SeamWorker, Surroundings } from './fleet.ts';

type EventOf<Type extends CoordinationEvent['type']> = Extract<CoordinationEvent, { type: Type }>;

/** The events of one kind that a worker has told so far, about one split or about any. */
export function eventsOf<Type extends CoordinationEvent['type']>(
  { events }: Pick<Surroundings, 'events'>,
  type: Type,
  splitId?: string,
): EventOf<Type>[] {
  return events.filter(
    (event): event is EventOf<Type> =>
      event.type === type &&
      (splitId === undefined || ('splitId' in event && event.splitId === splitId)),
  );
}

/** An event of one worker of a fleet, and when. */
export interface Happening {
  readonly atMs: number;
  readonly id: string;
  readonly event: CoordinationEvent;
}

/** One time line over all the workers given: what each tells from now on. */
export function timeLine(fleet: AnyFleet, ...workers: readonly SeamWorker[]): Happening[] {
  const happenings: Happening[] = [];
  for (const { id, coordinator } of workers) {
    coordinator.listen((event) => {
      happenings.push({ atMs: fleet.clock.nowMs(), id, event });
    });
  }
  return happenings;
}

/** Places of the events of one kind on a time line. */
export function placesOf(
  happenings: readonly Happening[],
  type: CoordinationEvent['type'],
): (Happening & { readonly index: number })[] {
  return happenings.flatMap((happening, index) =>
    happening.event.type === type ? [{ ...happening, index }] : [],
  );
}

/** Every write of a key or below a prefix, oldest first. */
export function writesOf(fleet: AnyFleet, prefix: string): readonly AuditRecord[] {
  return fleet.store.history(prefix);
}

/** A version of a record, and when it was written. */
export interface Version<T> {
  readonly atMs: number;
  readonly record: T;
}

/** Every version of a split's record, oldest first. */
export function versionsOfSplit(fleet: AnyFleet, id: string): Version<SplitRecord>[] {
  return versions(fleet, `${fleet.keys.root}splits/${id}`, splitCodec.decode);
}

/** Every version of the plan, oldest first. */
export function versionsOfPlan(fleet: AnyFleet): Version<PlanRecord>[] {
  return versions(fleet, fleet.keys.plan, planCodec.decode);
}

function versions<T>(
  fleet: AnyFleet,
  key: string,
  decode: (text: string) => { kind: string },
): Version<T>[] {
  return writesOf(fleet, key).flatMap(({ key: written, value, atMs }) => {
    const decoded = written === key && value !== null ? decode(value) : { kind: 'none' };
    return decoded.kind === 'record'
      ? [{ atMs, record: (decoded as unknown as { record: T }).record }]
      : [];
  });
}

/** The instance whose stamp a written value carries. */
export function writerOf(write: AuditRecord): string | null {
  if (write.value === null) return null;
  return (JSON.parse(write.value) as { by?: { instance?: string } }).by?.instance ?? null;
}

/** The session on which a worker's presence hangs now; null when it is not announced. */
export function sessionOf(fleet: AnyFleet, instance: string): SessionId | null {
  return fleet.entry(fleet.keys.presence(instance as InstanceId))?.session ?? null;
}

/** The session on which the leader key hangs. */
export function leaderSession(fleet: AnyFleet): SessionId {
  return fleet.store.dump(fleet.keys.leader)[0]!.session!;
}

/** Matches writes that carry the guard of a term: plan, seeds, assignments, verdict. */
export function isLeaderWrite(call: StoreCall): boolean {
  return call.kind === 'transact' && call.batch.guard.length > 0;
}

/** Ids under one kind of key, ascending. */
export function idsUnder(
  fleet: AnyFleet,
  kind: 'specs' | 'splits' | 'leases' | 'parked',
): string[] {
  const prefix = `${fleet.keys.root}${kind}/`;
  return fleet.store.dump(prefix).map(({ key }) => key.slice(prefix.length));
}

/** A promise that a test settles when it wants to. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: unknown): void;
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((resolved, rejected) => {
    resolve = resolved;
    reject = rejected;
  });
  return { promise, resolve, reject };
}

/** The code that a promise was rejected with. */
export function codeOf({ error }: { readonly error?: unknown }): string | undefined {
  return (error as { readonly code?: string } | undefined)?.code;
}

/** The splits that seams hold now. */
export function heldBy(...seams: readonly SeamWorker[]): string[] {
  return seams.flatMap(({ held }) => [...held.keys()]).sort();
}

/** Starts a worker on the seam and waits until it holds as many splits. */
export async function startAlone(fleet: AnyFleet, id: string, count: number): Promise<SeamWorker> {
  const seam = fleet.seam(id);
  await fleet.until(`${id} holds ${count}`, () => seam.held.size === count);
  return seam;
}

/** Resolves when this much of the fleet's time has passed. */
export function pass(fleet: AnyFleet, ms: number): Promise<void> {
  return new Promise((resolve) => {
    fleet.clock.setTimeout(() => {
      resolve();
    }, ms);
  });
}

/** Completes every split this worker gains, at once. */
export function completeAll(seam: SeamWorker, watermark = 1): void {
  seam.coordinator.listen((event) => {
    if (event.type !== 'gained') return;
    seam.coordinator
      .commit(event.split.id, { watermark, completed: true }, event.epoch)
      .catch((error: unknown) => {
        // Lost meanwhile: whoever has it now completes it.
        if (!isLeaseholdError(error)) throw error;
      });
  });
}

/** Hands every split back as soon as it is asked for. */
export function handBackAll(seam: SeamWorker): void {
  seam.coordinator.listen((event) => {
    if (event.type !== 'revokeRequested') return;
    seam.coordinator.releaseDrained([event.splitId], event.epoch).then(
      () => {
        seam.held.delete(event.splitId);
        seam.asked.delete(event.splitId);
      },
      (error: unknown) => {
        // Lost meanwhile.
        if (!isLeaseholdError(error)) throw error;
      },
    );
  });
}
