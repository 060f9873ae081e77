/** What the tenancy chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

const ENDED = [
  'dismissed',
  'released',
  'completed',
  'failed',
  'quarantined',
  'lostFenced',
  'lostStarved',
  'lostRevoked',
];
const HOLDING = ['held.owned', 'held.draining', 'held.cancelledDrain'];
const UNHELD = ['awaiting', 'claiming'];

export const tenancyIgnores: readonly Ignored[] = [
  { event: '*', states: ENDED, why: 'The tenancy is over; an answer may still be under way.' },
  { event: 'claim.due', states: ['claiming', ...HOLDING, 'held.closing'], why: 'Claimed already.' },
  {
    event: 'claim.won',
    states: ['awaiting', ...HOLDING, 'held.closing'],
    why: 'One claim, one answer.',
  },
  {
    event: 'claim.lost',
    states: ['awaiting', ...HOLDING, 'held.closing'],
    why: 'One claim, one answer.',
  },
  {
    event: 'assignment.regained',
    states: ['awaiting', 'held.owned', 'held.cancelledDrain'],
    why: 'Wanted already.',
  },
  {
    event: 'assignment.withdrawn',
    states: ['held.closing'],
    why: 'It is being given up; a new tenancy follows if the split is named again (R40).',
  },
  {
    event: 'assignment.regained',
    states: ['held.draining'],
    why: 'A stop is not taken back (R34).',
  },
  { event: 'assignment.regained', states: ['held.closing'], why: 'The last write is out (R34).' },
  {
    event: 'split.ended',
    states: ['claiming', ...HOLDING, 'held.closing'],
    why: 'The answer to the write in flight decides, not what others saw.',
  },
  ...['split.complete', 'split.fail', 'split.release'].map((event) => ({
    event,
    states: [...UNHELD, 'held.closing'],
    why: 'Nothing is granted, or the end is being written.',
  })),
  {
    event: 'drain.finished',
    states: [...UNHELD, 'held.owned', 'held.closing'],
    why: 'No drain runs here; an answer to a request that was withdrawn.',
  },
  {
    event: 'drain.declined',
    states: [...UNHELD, 'held.owned', 'held.closing'],
    why: 'No drain runs here; an answer to a request that was withdrawn.',
  },
  {
    event: 'drain.expired',
    states: [...UNHELD, 'held.owned', 'held.closing'],
    why: 'The timer is disarmed; it may have fired in the same instant.',
  },
  {
    event: 'intake.resumed',
    states: [...UNHELD, 'held.owned', 'held.draining', 'held.closing'],
    why: 'Only a cancelled drain resumes.',
  },
  {
    event: 'progress.landed',
    states: [...UNHELD, 'held.owned', 'held.draining', 'held.closing'],
    why: 'Only the silence clock of a cancelled drain listens to commits.',
  },
  {
    event: 'ending.landed',
    states: [...UNHELD, ...HOLDING],
    why: 'No ending was asked for.',
  },
  { event: 'tenancy.fenced', states: UNHELD, why: 'Nothing is held.' },
  { event: 'lease.deleted', states: UNHELD, why: 'Another owner’s lease; the claim decides.' },
  {
    event: 'lease.deleted',
    states: ['held.closing'],
    why: 'The ending deletes the lease itself; its answer decides.',
  },
];
