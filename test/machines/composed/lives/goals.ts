/** What must hold in every state of these lives, and where they must end up once faults are over. */
import type { LeaseRecord } from '../../../../src/records/records.ts';
import type { Goal } from '../explore.ts';
import { keys } from '../model.ts';
import { isIn } from './actors.ts';
import { isLeaving, mayTakePart } from './calls.ts';
import { type Life, type LifeSetting, type Lives, SPLIT } from './model.ts';
import { TWIN } from './presences.ts';
import { planIn, splitIn } from './records.ts';
import { sessionOf } from './sessions.ts';

/** What is broken in a state, or null. */
export function brokenIn(lives: Lives): string | null {
  if (lives.fault !== null) return lives.fault;
  const { workers, etcd } = lives;
  // There are no twins here.
  if (workers.some(({ error }) => error === TWIN))
    return 'a worker dies of a ghost of its own name';
  const leading = workers.filter(
    (worker) => worker.term !== null && worker.term === etcd.entries[keys.leader]?.createRevision,
  );
  if (leading.length > 1) return 'two workers lead';
  const lease = etcd.entries[keys.lease(SPLIT)];
  const record = splitIn(etcd);
  if (lease !== undefined && (lease.value as LeaseRecord).epoch !== record?.epoch) {
    return 'a lease shows another tenancy than the record';
  }
  const isInVain = workers.some((worker) => renewsInVain(worker, lease?.session));
  return isInVain ? 'a lease is renewed by a worker that does not hold it' : null;
}

function renewsInVain(worker: Life, session: string | null | undefined): boolean {
  if (!worker.isUp || worker.session.held !== 'open' || worker.session.id !== session) return false;
  return worker.tenancy?.actor.chart.has('held') !== true;
}

export function goalsOf(setting: LifeSetting): Goal<Lives>[] {
  const placed = (lives: Lives, worker: Life): boolean => isPlaced(setting, lives, worker);
  return [
    {
      name: 'every worker is in the fleet, has left it, or says why not',
      isReached: (lives) => lives.workers.every((worker) => placed(lives, worker)),
    },
    {
      name: 'somebody leads, where anybody can',
      isReached: (lives) => !lives.workers.some((worker) => mayLead(lives, worker)) || isLed(lives),
    },
    {
      name: 'the split has ended or is worked on, where anybody can',
      isReached: (lives) => isServed(lives),
    },
  ];
}

function isPlaced(setting: LifeSetting, lives: Lives, worker: Life): boolean {
  if (!worker.isUp) return true;
  if (isLeaving(worker)) return false;
  if (mayTakePart({ lives, worker })) return true;
  // A worker that is refused for good says so, and holds nothing.
  const saysWhy = isIn(worker, 'link', 'denied') || isIn(worker, 'link', 'barred');
  return lives.denied.includes(worker.id) && !setting.denialsEnd && saysWhy;
}

function mayLead(lives: Lives, worker: Life): boolean {
  return mayTakePart({ lives, worker }) && !lives.deniedLeaders.includes(worker.id);
}

function isLed({ workers, etcd }: Lives): boolean {
  const { createRevision } = etcd.entries[keys.leader] ?? {};
  return workers.some(
    (worker) => worker.term === createRevision && isIn(worker, 'leader', 'leading.governing'),
  );
}

function isServed(lives: Lives): boolean {
  const { workers, etcd, isPaused, drained } = lives;
  const status = splitIn(etcd)?.status;
  const isNeeded = workers.some((worker) => mayLead(lives, worker));
  if (!isNeeded) return true;
  if (status === 'completed' || status === 'quarantined') return planIn(etcd)?.verdict !== null;
  const mayWork = workers.some(
    (worker) => mayTakePart({ lives, worker }) && !drained.includes(worker.id),
  );
  if (isPaused || !mayWork) return true;
  const lease = etcd.entries[keys.lease(SPLIT)];
  return workers.some(
    (worker) =>
      worker.isUp &&
      lease !== undefined &&
      lease.session === sessionOf({ worker }, 'session') &&
      isIn(worker, 'tenancy', 'held.owned'),
  );
}
