/** Mistakes that no path in a running worker can notice, by chart, and why. What is noticed after all may not stand here. */
import type { ChartName } from '../../../machines/index.ts';

const NEVER_TWICE = 'The worker never arms it twice; paths.test.ts shows it on the chart alone.';
const TOLD_ANYWAY =
  'A presence that changed is an input that changed, whatever became of the peer.';
const HAS_FIRED = 'What failed was sent when the timer fired: none runs.';
const NOT_WATCHED =
  'Nothing is watched there, and what a reading brings later is dropped with its worker or its term.';
const NOT_ANNOUNCED = 'Nothing is announced that could be marked.';
const ENDS_AT_ONCE = 'Without a session it has left at once, and its timers with it.';

export const UNNOTICED: Readonly<Record<ChartName, Readonly<Record<string, string>>>> = {
  tenancy: {},
  leader: {
    'following.resting: its exit leaves out xstate.cancel at 0':
      'The timer has just fired, or the chart ends and its timers with it.',
    'campaigning on worker.parting -> departed: leaves out closeLeaderSession':
      'Leaving closes both sessions last.',
    'campaigning.standing on session.expired -> following: leaves out closeLeaderSession':
      'There is none any more.',
    'leading.governing.planning.enumerating on planner.threw stays: leaves out xstate.cancel at 1':
      HAS_FIRED,
  },
  presence: {
    'probing on step.failed stays: leaves out xstate.cancel at 1': HAS_FIRED,
    'joining on step.failed stays: leaves out xstate.cancel at 1': HAS_FIRED,
    'joining on job.planless stays: leaves out xstate.cancel at 0': HAS_FIRED,
    'rejoining.joining on step.failed stays: leaves out xstate.cancel at 0': HAS_FIRED,
    'rejoining.joining on job.planless stays: leaves out xstate.cancel at 0': HAS_FIRED,
    'probing on step.failed [isExhausted] stays: leaves out xstate.cancel at 1': HAS_FIRED,
    'joining on step.failed [isExhausted] stays: leaves out xstate.cancel at 1': HAS_FIRED,
    'announcing.putting on step.failed [isExhausted] stays: leaves out xstate.cancel at 1':
      'The worker leaves at once, and its timers with the state.',
    'probing on worker.stopping -> parting: leaves out announceParting': NOT_ANNOUNCED,
    'joining on worker.stopping -> parting: leaves out announceParting': NOT_ANNOUNCED,
    'announcing on worker.stopping -> parting: leaves out announceParting': NOT_ANNOUNCED,
    'rejoining on worker.stopping -> parting: leaves out announceParting':
      'Nothing is announced, or what lands brings the next announcement.',
    'probing: its exit leaves out xstate.cancel at 0': ENDS_AT_ONCE,
  },
  peer: {
    'present on peer.vanished [hasNoDelay] -> gone: leaves out noteMembership': TOLD_ANYWAY,
    'present on peer.vanished -> withheld: leaves out noteMembership': TOLD_ANYWAY,
    'present on peer.parting -> gone: leaves out noteMembership': TOLD_ANYWAY,
    'withheld on peer.announced -> present: leaves out noteMembership': TOLD_ANYWAY,
    'withheld on peer.parting -> gone: leaves out noteMembership': TOLD_ANYWAY,
    'gone on peer.announced -> present: leaves out noteMembership': TOLD_ANYWAY,
  },
  session: {
    'open.late on renewal.failed stays: leaves out xstate.assign at 0':
      'One pause is as long as the other.',
    'open.late on renewal.failed stays: leaves out xstate.cancel at 1': HAS_FIRED,
    'opening on opening.failed stays: leaves out xstate.cancel at 1': HAS_FIRED,
  },
  departure: {
    'closing: its exit leaves out xstate.cancel at 0': 'The chart ends, and its timers with it.',
  },
  link: {},
  follow: {
    'listing on follow.closed -> closed: leaves out unwatch': NOT_WATCHED,
    'pausing on follow.closed -> closed: leaves out unwatch': NOT_WATCHED,
    'watching on watch.compacted -> listing: leaves out unwatch':
      'The store has ended the watch itself.',
  },
  writing: {
    'settling on batch.unanswered stays: leaves out xstate.cancel at 1': NEVER_TWICE,
  },
};
