/**
 * Where a worker announces itself, what a conflict there means, and who is its twin (R13, R14).
 *
 * Only a process's first announcement in a store may overwrite another process; from then on another one under its name,
 * announced later, is a twin. What stood there before belongs to a process that is gone, or is a ghost of this one.
 */
import { ABSENT, compareDecimals, type Revision } from '../base/decimals.ts';
import type { Nonce, SessionId } from '../base/ids.ts';
import { type Decoded, sameStamp, type Stamp } from '../records/codec.ts';
import type { PresenceRecord } from '../records/records.ts';

/** A presence as it stands in the store. */
export interface PresenceView {
  readonly record: PresenceRecord;
  readonly modRevision: Revision;
  readonly session: SessionId | null;
}

/** Who announces itself. */
export interface Announcer {
  readonly nonce: Nonce;
  readonly session: SessionId | null;
  /** An announcement of this process has landed in this store. */
  readonly hasLanded: boolean;
}

/** Where to put the presence, and the session of the process that was there before; null when there was none. */
export interface AnnouncementPlace {
  readonly equals: Revision;
  readonly predecessor: SessionId | null;
}

/**
 * Decides on which revision the presence is put.
 *
 * @param seenAt  The revision at which the key was seen, or announced last.
 */
export function announceOn(
  me: Announcer,
  shown: PresenceView | undefined,
  seenAt: Revision,
): AnnouncementPlace {
  if (shown === undefined) return { equals: seenAt, predecessor: null };
  if (!me.hasLanded) return { equals: seenAt, predecessor: predecessorOf(me, shown) };
  // What was seen may be gone: the store says whether it still is there, and then it is a twin.
  return { equals: shown.record.nonce === me.nonce ? seenAt : ABSENT, predecessor: null };
}

/** True when a presence that is seen is another process's, announced after this one's last announcement. */
export function isTwin(
  { nonce }: Pick<Announcer, 'nonce'>,
  shown: PresenceView | undefined,
  announcedAt: Revision | null,
): boolean {
  if (shown === undefined || announcedAt === null || shown.record.nonce === nonce) return false;
  return compareDecimals(shown.modRevision, announcedAt) > 0;
}

export type AnnouncementConflict =
  /** The presence found is this very announcement. */
  | { readonly kind: 'landed' }
  | { readonly kind: 'twin'; readonly other: PresenceRecord }
  /** Announce on what was found. */
  | { readonly kind: 'again'; readonly predecessor: SessionId | null };

/** Reads what an announcement found in its place. */
export function settleAnnouncement(
  me: Announcer,
  stamp: Stamp,
  found: { readonly decoded: Decoded<PresenceRecord>; readonly session: SessionId | null } | null,
): AnnouncementConflict {
  if (found?.decoded.kind !== 'record') return { kind: 'again', predecessor: null };
  const { decoded, session } = found;
  if (sameStamp(decoded.stamp, stamp)) return { kind: 'landed' };
  const { record } = decoded;
  if (record.nonce === me.nonce) return { kind: 'again', predecessor: null };
  if (me.hasLanded) return { kind: 'twin', other: record };
  return { kind: 'again', predecessor: predecessorOf(me, { record, session }) };
}

function predecessorOf(
  { session: own }: Announcer,
  { record, session }: Pick<PresenceView, 'record' | 'session'>,
): SessionId | null {
  const before = session ?? record.session;
  return before === own ? null : before;
}
