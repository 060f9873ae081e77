/**
 * Leadership as one worker lives it: following, standing for election, leading, giving it up.
 *
 * Every write of a term carries the term's own guard (R19). Rules: R18-R26. Tests: test/machines.
 */
import { balancing, judging, planning } from './leader.governing.ts';
import { leaderSetup } from './leader.setup.ts';

const base = leaderSetup;

const noteCandidacyDelay = base.assign(({ event }) =>
  event.type === 'leader.absent' ? { candidacyDelayMs: event.delayMs } : {},
);
const armCandidacy = base.raise(
  { type: 'candidacy.due' },
  { delay: 'candidacyDelay', id: 'candidacy' },
);
const disarmCandidacy = base.cancel('candidacy');
const noteRest = base.assign(({ event }) =>
  event.type === 'term.unhealthy' ? { restMs: event.restMs } : {},
);
const armRest = base.raise({ type: 'rest.over' }, { delay: 'rest', id: 'rest' });
const disarmRest = base.cancel('rest');
const noteLeaving = base.assign({ isLeaving: true });
/** A term is over: on to the next one, unless the worker leaves; after a rest if it was given up for cause. */
const after = <Target extends string>(target: Target) =>
  [{ guard: 'isLeaving', target: 'departed' }, { target }] as const;
const giveUpCandidacy = { target: '#leader.following', actions: 'closeLeaderSession' } as const;

/** What this worker knows about standing for election. */
const outlook = {
  'leader.seen': 'led',
  'leader.absent': { target: 'vacant', actions: noteCandidacyDelay },
  'plan.missing': 'planless',
  'standing.barred': 'barred',
} as const;
const outlookWithout = <Name extends keyof typeof outlook>(name: Name) => {
  const { [name]: _, ...rest } = outlook;
  return rest;
};

export const leaderMachine = base.createMachine({
  id: 'leader',
  description: 'Leadership of the job, as one worker lives it.',
  options: { maxIterations: 100 },
  context: ({ input }) => ({
    ...input,
    candidacyDelayMs: 0,
    restMs: 0,
    balanceDelayMs: 0,
    plannerPauseMs: 0,
    isLeaving: false,
    isStale: false,
  }),
  initial: 'following',
  states: {
    following: {
      description: 'Does not lead the job.',
      initial: 'barred',
      on: { 'worker.parting': 'departed' },
      states: {
        barred: {
          description: 'May not stand: it is not in the fleet, or has not read what it must know.',
          tags: ['waiting'],
          on: outlookWithout('standing.barred'),
        },
        led: {
          description: 'Another worker leads.',
          on: outlookWithout('leader.seen'),
        },
        vacant: {
          description: 'Nobody leads; this worker waits for its turn to stand.',
          tags: ['waiting'],
          entry: armCandidacy,
          exit: disarmCandidacy,
          on: {
            ...outlookWithout('leader.absent'),
            'candidacy.due': '#leader.campaigning',
          },
        },
        planless: {
          description:
            'Nobody leads and there is no plan: it is looked for, and made if none was lost.',
          tags: ['alert'],
          entry: 'seekPlan',
          on: {
            ...outlookWithout('plan.missing'),
            'plan.sought': 'barred',
          },
        },
        resting: {
          description:
            'Gave leadership up for cause; others may lead, and it stands again later (R18).',
          tags: ['alert'],
          entry: armRest,
          exit: disarmRest,
          on: { 'rest.over': 'barred' },
        },
      },
    },
    campaigning: {
      description: 'Stands for election under a session of its own.',
      initial: 'opening',
      on: {
        'leader.seen': giveUpCandidacy,
        'standing.barred': giveUpCandidacy,
        'worker.parting': { target: 'departed', actions: 'closeLeaderSession' },
      },
      states: {
        opening: {
          description: 'Asks for the session that the leader key will hang on.',
          tags: ['waiting'],
          entry: 'openLeaderSession',
          on: { 'session.opened': 'standing' },
        },
        standing: {
          description: 'Puts the leader key and raises the generation, if nobody was faster.',
          tags: ['writing'],
          entry: 'requestElection',
          on: {
            'election.won': '#leader.leading',
            'election.lost': giveUpCandidacy,
            'session.expired': giveUpCandidacy,
          },
        },
      },
    },
    leading: {
      description: 'Plans the work, divides it and gives the verdict.',
      tags: ['leads'],
      initial: 'opening',
      on: {
        'term.lost': { target: 'deposed', actions: ['endTerm', 'closeLeaderSession'] },
        'session.expired': { target: 'deposed', actions: ['endTerm', 'closeLeaderSession'] },
        'term.unhealthy': {
          target: 'resigning',
          actions: [noteRest, 'endTerm', 'requestResignation'],
        },
        'worker.parting': {
          target: 'resigning',
          actions: [noteLeaving, 'endTerm', 'requestResignation'],
        },
      },
      states: {
        opening: {
          description: 'Reads who was assigned what, and every split, before it decides anything.',
          tags: ['waiting'],
          entry: 'openTerm',
          on: { 'term.ready': { target: 'governing', actions: 'takeUp' } },
        },
        governing: {
          type: 'parallel',
          description: 'Knows every split, and decides.',
          states: { planning, balancing, judging },
        },
      },
    },
    resigning: {
      description: 'Gives leadership up: writes nothing more as leader and deletes the leader key.',
      tags: ['writing'],
      on: {
        'worker.parting': { actions: noteLeaving },
        'term.closed': after('following.resting'),
      },
    },
    deposed: {
      description:
        'No longer leads: the key is gone or another’s, or its session was not renewed in time.',
      tags: ['alert'],
      on: {
        'worker.parting': { actions: noteLeaving },
        'term.closed': after('following'),
      },
    },
    departed: {
      description: 'The worker is leaving; it stands for election no more.',
      tags: ['ended'],
      type: 'final',
    },
  },
});
