/**
 * Timers against events, in any order: the charts run on a clock that is made of fast-check's scheduler, which decides
 * what comes next, and shrinks the order of what goes wrong.
 */
import { describe, expect, test } from '@jest/globals';
import fc, { type Scheduler } from 'fast-check';
import { type AnyActorRef, createActor } from 'xstate';
import type { Timer } from '../../src/base/clock.ts';
import { CASES } from '../machines/cases.ts';
import { chartOf, recorderOf } from '../machines/drive.ts';

type ChartName = 'tenancy' | 'leader' | 'presence';

/** A letter for each action; one that none is given for says nothing about the order. */
const LETTERS: Readonly<Record<ChartName, Readonly<Record<string, string>>>> = {
  tenancy: {
    requestClaim: 'C',
    grantSplit: 'G',
    askForSplit: 'A',
    withdrawRequest: 'W',
    loseGrant: 'L',
    requestEnding: 'E',
  },
  leader: {
    openLeaderSession: 'O',
    requestElection: 'R',
    closeLeaderSession: 'X',
    openTerm: 'B',
    takeUp: 'w',
    endTerm: 'T',
    requestResignation: 'N',
    startPlanner: 'w',
    seedSplits: 'w',
    publishPlan: 'w',
    recreatePlan: 'w',
    balance: 'w',
    readSplits: 'w',
    writeVerdict: 'w',
  },
  presence: {
    probeStore: 'P',
    joinJob: 'J',
    openSession: 'S',
    announce: 'A',
    announceParting: 'T',
    reportExhaustion: 'X',
  },
};

/** What a chart may ask for, in which order, whatever happens when. */
const ORDERS: Readonly<Record<ChartName, RegExp>> = {
  // Granted at most once; asked back and let have it in turn; ended at most once; nothing but a loss after that.
  tenancy: /^C*(?:EL?|G(?:AW)*A?(?:LEL?|EL?|L)?)?$/,
  // Work of a leader within its term, which ends before its session is closed or its key given up.
  leader: /^(?:OR*(?:X|Bw*T[XN]))*(?:OR*(?:Bw*)?)?$/,
  // No announcement without a session asked for since the job was joined last; after the parting only that it parts.
  presence: /^P+(?:J+(?:S[SA]*)?)*(?:TA*|X)?$/,
};

/** Events that timers raise; nobody else sends them. */
const OF_TIMERS = new Set([
  'candidacy.due',
  'rest.over',
  'balance.due',
  'planner.retry',
  'step.retry',
  'rejoin.due',
]);

const recorders = {
  tenancy: recorderOf(chartOf('tenancy').machine),
  leader: recorderOf(chartOf('leader').machine),
  presence: recorderOf(chartOf('presence').machine),
};

interface Ran {
  /** What was asked for, letter by letter. */
  readonly asked: string;
  readonly state: string;
  readonly isOver: boolean;
}

/** Sends events in their order, with the timers of the chart wherever the scheduler puts them. */
async function run(
  name: ChartName,
  scheduler: Scheduler,
  events: readonly { readonly type: string }[],
): Promise<Ran> {
  const { machine, logs } = recorders[name];
  const log: string[] = [];
  const actor = createActor(machine, {
    input: chartOf(name).exampleInput,
    clock: clockOf(scheduler),
  });
  logs.set(actor as AnyActorRef, log);
  const faults: unknown[] = [];
  actor.subscribe({ error: (error) => faults.push(error) });
  actor.start();
  void scheduler.scheduleSequence(
    events.map((event) => ({
      label: event.type,
      builder: async () => {
        if (actor.getSnapshot().status === 'active') actor.send(event);
      },
    })),
  );
  await scheduler.waitIdle();
  expect(faults).toEqual([]);
  const { value, status } = actor.getSnapshot();
  return {
    asked: log.map((action) => LETTERS[name][action] ?? '').join(''),
    state: typeof value === 'string' ? value : JSON.stringify(value),
    isOver: status !== 'active',
  };
}

function clockOf(scheduler: Scheduler) {
  return {
    setTimeout: (callback: () => void, delayMs: number): Timer => {
      const timer = { isLive: true };
      void scheduler.schedule(Promise.resolve(), `timer of ${delayMs} ms`).then(() => {
        if (timer.isLive) callback();
      });
      return timer;
    },
    clearTimeout: (timer: Timer): void => {
      (timer as { isLive: boolean }).isLive = false;
    },
  };
}

/** What brings a chart to where most can happen; half of the runs begin with it. */
const BEGINNINGS: Readonly<Record<ChartName, readonly string[]>> = {
  tenancy: ['claim.due', 'claim.won', 'assignment.withdrawn'],
  leader: ['leader.absent', 'leader.absent', 'session.opened', 'election.won'],
  presence: ['probe.passed', 'job.joined', 'session.opened'],
};

/** Every way a chart went, by its letters. */
async function explore(name: ChartName, check: (ran: Ran) => void): Promise<Set<string>> {
  const seen = new Set<string>();
  const events = CASES[name].events.filter(({ type }) => !OF_TIMERS.has(type));
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.boolean(),
      fc.array(fc.constantFrom(...events), { minLength: 3, maxLength: 12 }),
      async (scheduler, isLed, sent) => {
        const beginning = isLed ? BEGINNINGS[name] : [];
        const first = beginning.map((type) => events.find((event) => event.type === type)!);
        const ran = await run(name, scheduler, [...first, ...sent]);
        seen.add(ran.asked);
        expect(ran.asked).toMatch(ORDERS[name]);
        check(ran);
      },
    ),
    { numRuns: 500, seed: 20_260_101 },
  );
  return seen;
}

describe('interleavings of timers and events', () => {
  test('tenancy - is granted once, ended once, and lost before it is anybody else’s', async () => {
    const seen = await explore('tenancy', ({ asked, state, isOver }) => {
      const isGranted = asked.includes('G');
      if (isOver && state.startsWith('lost') && isGranted) expect(asked).toContain('L');
      if (['released', 'completed', 'failed', 'quarantined'].includes(state)) {
        expect(asked).toMatch(/E$/);
      }
    });
    // Forced by its timer, and ended before it could be.
    expect([...seen].some((asked) => asked.includes('ALE'))).toBe(true);
    expect([...seen].some((asked) => /AE/.test(asked))).toBe(true);
  });

  test('leader - does the work of a leader within its term alone', async () => {
    const seen = await explore('leader', () => undefined);
    expect([...seen].some((asked) => /Bw+T/.test(asked))).toBe(true);
    expect([...seen].some((asked) => /BT/.test(asked))).toBe(true);
  });

  test('presence - announces nothing without a session, and after its parting nothing but that', async () => {
    const seen = await explore('presence', () => undefined);
    expect([...seen].some((asked) => asked.startsWith('PP'))).toBe(true);
    expect([...seen].some((asked) => /SA.*T/.test(asked))).toBe(true);
    // Another store: from the plan on.
    expect([...seen].some((asked) => /SAJ/.test(asked))).toBe(true);
  });

  test('the orders - refuse what must not be', () => {
    for (const wrong of ['GG', 'CGLA', 'GEA', 'GEE', 'AG'])
      expect(wrong).not.toMatch(ORDERS.tenancy);
    for (const wrong of ['B', 'ORBTw', 'ORBX', 'ORXN']) expect(wrong).not.toMatch(ORDERS.leader);
    for (const wrong of ['PJA', 'PJSAJA', 'PJSTJ', 'J']) expect(wrong).not.toMatch(ORDERS.presence);
  });
});
