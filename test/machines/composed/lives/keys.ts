/** What tells two states of these lives apart: revisions and sessions by what they are to those who know them. */
import type { Entry } from '../etcd.ts';
import { keys } from '../model.ts';
import { type Actor, type Keeper, type Life, type Lives, SPLIT } from './model.ts';
import { splitIn } from './records.ts';

const ids = new Map<string, number>();
const tokens = new WeakMap<object, number>();
const COUNTED = {
  epoch: undefined,
  generation: undefined,
  session: undefined,
  requeues: undefined,
};

/** A value without what counts up for ever. */
function tokenOf(value: object): number {
  const known = tokens.get(value);
  if (known !== undefined) return known;
  const text = JSON.stringify({ ...value, ...COUNTED });
  const id = ids.get(text) ?? ids.size;
  ids.set(text, id);
  tokens.set(value, id);
  return id;
}

export function keyOfLives(lives: Lives): string {
  const { etcd, workers, peers, left, denied, deniedLeaders, drained, isPaused, fault } = lives;
  const names = sessionNames(lives);
  const nameOf = (session: string | null): string =>
    session === null ? '' : (names.get(session) ?? '-');
  const entryText = (key: string): string => {
    const entry = etcd.entries[key];
    return entry === undefined ? '' : `${tokenOf(entry.value)}${nameOf(entry.session)}`;
  };
  const stored = [
    entryText(keys.plan),
    entryText(keys.leader),
    entryText(keys.split(SPLIT)),
    entryText(keys.lease(SPLIT)),
    ...workers.flatMap(({ id }) => [
      entryText(keys.presence(id)),
      entryText(keys.assignment(id)),
      actorText(peers[id]!),
    ]),
  ];
  return [
    stored.join(),
    etcd.sessions.map(nameOf).sort().join(),
    ...workers.map((worker) => workerText(lives, worker, nameOf)),
    `${denied.join()}/${deniedLeaders.join()}/${drained.join()}/${Number(isPaused)}${fault ?? ''}`,
    leftText(left),
  ].join('#');
}

/** More of a kind than of all together is as much. */
function leftText({ total, ...kinds }: Lives['left']): string {
  const counts = Object.values(kinds).map((count) => Math.min(count, total));
  return total === 0 ? '' : `${total}${counts.join('')}`;
}

function actorText({ chart, armed }: Actor): string {
  return armed.length === 0 ? String(chart.id) : `${chart.id}!${armed.join('!')}`;
}

function workerText(
  { etcd }: Lives,
  worker: Life,
  nameOf: (session: string | null) => string,
): string {
  if (!worker.isUp) return worker.error ?? 'gone';
  const keeperText = ({ actor, held, id, isCalling, closing }: Keeper): string => {
    const isThere = held === 'open' && etcd.sessions.includes(id);
    return `${actorText(actor)}${held[0]}${Number(isThere)}${Number(isCalling)}${nameOf(closing)}${closing === '' ? '' : 'c'}`;
  };
  const { tenancy, announcedAt, term } = worker;
  const shown = etcd.entries[keys.presence(worker.id)];
  const isOfRecord = tenancy?.epoch === splitIn(etcd)?.epoch;
  return [
    actorText(worker.presence),
    keeperText(worker.session),
    actorText(worker.leader),
    keeperText(worker.leaderSession),
    actorText(worker.departure),
    actorText(worker.link),
    tenancy === null ? '' : `${actorText(tenancy.actor)}${Number(isOfRecord)}`,
    worker.calls
      .map(({ name, session, isParting }) => `${name}${nameOf(session)}${isParting ? 'p' : ''}`)
      .join(),
    [worker.isCurrent, worker.hasWatches, worker.isListed, worker.isRefused, worker.isStarting]
      .map(Number)
      .join(''),
    `${revisionText(shown, announcedAt)}${Number(worker.hasLanded)}`,
    term === null ? '' : term === etcd.entries[keys.leader]?.createRevision ? '=' : 'x',
    worker.error ?? '',
  ].join('/');
}

function revisionText(shown: Entry | undefined, announcedAt: number | null): string {
  if (announcedAt === null) return '-';
  if (shown === undefined) return '0';
  if (shown.modRevision === announcedAt) return '=';
  return shown.modRevision > announcedAt ? '>' : '<';
}

/** Sessions by what they are to their worker: its own, its leader’s, being given back, or left over. */
function sessionNames({ workers, etcd }: Lives): Map<string, string> {
  const names = new Map<string, string>();
  for (const { id, isUp, session, leaderSession } of workers) {
    if (!isUp) continue;
    if (session.held !== 'none') names.set(session.id, `${id}S`);
    if (leaderSession.held !== 'none') names.set(leaderSession.id, `${id}L`);
    if (session.closing !== '') names.set(session.closing, `${id}s`);
    if (leaderSession.closing !== '') names.set(leaderSession.closing, `${id}l`);
  }
  let rest = 0;
  for (const session of etcd.sessions) {
    if (names.has(session)) continue;
    // One on which nothing hangs is like any other of its kind.
    const holds = Object.entries(etcd.entries).flatMap(([key, entry]) =>
      entry.session === session ? [key] : [],
    );
    rest += 1;
    names.set(session, holds.length === 0 ? '*' : `?${rest}${holds.join('+')}`);
  }
  return names;
}
