/** What the peer chart deliberately does nothing about. */
import type { Ignored } from '../chart.ts';

export const peerIgnores: readonly Ignored[] = [
  {
    event: 'peer.announced',
    states: ['present'],
    why: 'It is there already; it announced something else.',
  },
  { event: 'peer.vanished', states: ['withheld', 'gone'], why: 'Known to be missing.' },
  { event: 'peer.parting', states: ['gone'], why: 'It has left.' },
  {
    event: 'delay.elapsed',
    states: ['present', 'gone'],
    why: 'The timer is disarmed; it may have fired just now.',
  },
];
