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
const SENT = ['held.closing.sent', 'held.closing.unanswered'];
const CLOSING = ['held.closing.queued', ...SENT];
const CLAIMING = ['claiming.wanted', 'claiming.unwanted'];
const UNHELD = ['awaiting', ...CLAIMING];

export const tenancyIgnores: readonly Ignored[] = [
  { event: '*', states: ENDED, why: 'The tenancy is over; an answer may still be under way.' },
  { event: 'claim.due', states: [...CLAIMING, ...HOLDING, ...CLOSING], why: 'Claimed already.' },
  {
    event: 'claim.won',
    states: ['awaiting', ...HOLDING, ...CLOSING],
    why: 'One claim, one answer.',
  },
  {
    event: 'claim.lost',
    states: ['awaiting', ...HOLDING, ...CLOSING],
    why: 'One claim, one answer.',
  },
  {
    event: 'assignment.regained',
    states: ['awaiting', 'claiming.wanted', 'held.owned', 'held.cancelledDrain'],
    why: 'Wanted already.',
  },
  {
    event: 'assignment.regained',
    states: ['claiming.unwanted', 'held.draining'],
    why: 'A stop is not taken back (R34).',
  },
  {
    event: 'assignment.withdrawn',
    states: CLOSING,
    why: 'It is being given up; a new tenancy follows if the split is named again (R40).',
  },
  { event: 'assignment.regained', states: CLOSING, why: 'The last write is decided (R34).' },
  {
    event: 'split.ended',
    states: [...CLAIMING, ...HOLDING, ...CLOSING],
    why: 'The answer to the write in flight decides, not what others saw.',
  },
  ...['split.complete', 'split.fail', 'split.release', 'drain.finished'].map((event) => ({
    event,
    states: [...UNHELD, ...CLOSING],
    why: 'Nothing is granted, or the end is being written.',
  })),
  {
    event: 'drain.declined',
    states: [...UNHELD, 'held.owned', ...CLOSING],
    why: 'No drain runs here; an answer to a request that was withdrawn.',
  },
  {
    event: 'drain.expired',
    states: [...UNHELD, 'held.owned', ...CLOSING],
    why: 'The timer is disarmed; it may have fired in the same instant.',
  },
  {
    event: 'intake.resumed',
    states: [...UNHELD, 'held.owned', 'held.draining', ...CLOSING],
    why: 'Only a cancelled drain resumes.',
  },
  {
    event: 'progress.landed',
    states: [...UNHELD, 'held.owned', 'held.draining', ...CLOSING],
    why: 'Only the silence clock of a cancelled drain listens to commits.',
  },
  { event: 'ending.landed', states: [...UNHELD, ...HOLDING], why: 'No ending was asked for.' },
  { event: 'ending.sent', states: [...UNHELD, ...HOLDING], why: 'No ending was asked for.' },
  { event: 'ending.refused', states: [...UNHELD, ...HOLDING], why: 'No ending was asked for.' },
  { event: 'ending.sent', states: ['held.closing.sent'], why: 'Sent on top of what was found.' },
  {
    event: 'ending.unanswered',
    states: [...UNHELD, ...HOLDING, 'held.closing.queued', 'held.closing.unanswered'],
    why: 'Not sent, or known to be unanswered.',
  },
  { event: 'tenancy.fenced', states: UNHELD, why: 'Nothing is held.' },
  {
    event: 'tenancy.fenced',
    states: SENT,
    why: 'Whoever is seen to have a split that is being handed back, the answer decides (R4).',
  },
  { event: 'tenancy.starved', states: UNHELD, why: 'Nothing is written before the claim is won.' },
  { event: 'lease.deleted', states: UNHELD, why: 'Another owner’s lease; the claim decides.' },
  {
    event: 'lease.deleted',
    states: CLOSING,
    why: 'The ending deletes the lease itself; its answer decides.',
  },
];
