/** What leadership must do in the stories that matter. */
import { describe, expect, test } from '@jest/globals';
import { begin, type Driven } from './drive.ts';

function absent(leader: Driven, delayMs: number): void {
  leader.send({ type: 'leader.absent', delayMs });
}

function changed(leader: Driven, delayMs = 200): void {
  leader.send({ type: 'inputs.changed', delayMs });
}

async function campaigning(): Promise<Driven> {
  const leader = begin('leader');
  absent(leader, 100);
  await leader.advance(100);
  leader.asked();
  return leader;
}

async function leading(): Promise<Driven> {
  const leader = await campaigning();
  leader.sendAll('session.opened', 'election.won');
  leader.asked();
  return leader;
}

describe('standing for election', () => {
  test('leader - a worker stands when its candidacy is due, and not before', async () => {
    const leader = begin('leader');
    absent(leader, 300);
    await leader.advance(299);
    expect([leader.state, leader.asked()]).toEqual(['following', []]);
    await leader.advance(1);
    expect([leader.state, leader.asked()]).toEqual(['campaigning', ['openLeaderSession']]);
    leader.sendAll('session.opened');
    expect(leader.asked()).toEqual(['requestElection']);
    leader.sendAll('election.won');
    expect(leader.asked()).toEqual(['beginTerm']);
    expect(leader.state).toBe(
      'leading.planning.idle leading.balancing.settled leading.judging.open',
    );
  });

  test('leader - a later word on the absence replaces the candidacy', async () => {
    const leader = begin('leader');
    absent(leader, 100);
    await leader.advance(50);
    absent(leader, 500);
    expect(leader.clock.pendingTimers).toBe(1);
    await leader.advance(499);
    expect(leader.state).toBe('following');
    await leader.advance(1);
    expect(leader.state).toBe('campaigning');
  });

  test('leader - a leader in sight disarms the candidacy, and its loss arms it again', async () => {
    const leader = begin('leader');
    absent(leader, 100);
    leader.sendAll('leader.seen');
    expect(leader.timers).toEqual([]);
    await leader.advance(60_000);
    expect(leader.state).toBe('following');
    absent(leader, 0);
    await leader.advance(0);
    expect(leader.state).toBe('campaigning');
  });

  test('leader - a worker that is leaving stands no more', async () => {
    const leader = begin('leader');
    absent(leader, 100);
    leader.sendAll('worker.parting');
    expect([leader.state, leader.timers]).toEqual(['departed', []]);
    await leader.advance(60_000);
    expect(leader.asked()).toEqual([]);
  });

  test.each([
    ['election.lost', 'following'],
    ['leader.seen', 'following'],
    ['session.expired', 'following'],
    ['worker.parting', 'departed'],
  ])('leader - %s while standing gives the session back', async (type, state) => {
    const leader = await campaigning();
    leader.sendAll(type);
    expect([leader.state, leader.asked()]).toEqual([state, ['closeLeaderSession']]);
  });

  test('leader - a win under a session that was given up begins no term', async () => {
    const leader = await campaigning();
    leader.sendAll('session.opened', 'leader.seen');
    leader.asked();
    leader.sendAll('election.won');
    expect([leader.state, leader.asked()]).toEqual(['following', []]);
  });
});

describe('planning', () => {
  test('leader - a slow planner delays neither balancing nor judging', async () => {
    const leader = await leading();
    leader.sendAll('plan.due');
    expect(leader.asked()).toEqual(['startPlanner']);
    changed(leader);
    await leader.advance(200);
    expect(leader.asked()).toEqual(['balance']);
    leader.sendAll('assignments.written', 'judgement.due', 'judgement.reached');
    expect(leader.asked()).toEqual(['readSplits', 'writeVerdict']);
    leader.sendAll('verdict.written');
    await leader.advance(3_600_000);
    expect(leader.state).toBe(
      'leading.planning.enumerating leading.balancing.settled leading.judging.decided',
    );
    leader.sendAll('planner.returned');
    expect(leader.asked()).toEqual(['seedSplits']);
  });

  test('leader - a final plan is seeded, published, sealed and never asked for again', async () => {
    const leader = await leading();
    leader.sendAll('plan.due', 'planner.returned', 'splits.seeded');
    expect(leader.asked()).toEqual(['startPlanner', 'seedSplits', 'publishPlan']);
    leader.send({ type: 'plan.published', isSealed: true });
    leader.sendAll('plan.due');
    expect([leader.state, leader.asked()]).toEqual([
      expect.stringContaining('planning.sealed'),
      [],
    ]);
  });

  test('leader - an open plan is planned again later', async () => {
    const leader = await leading();
    leader.sendAll('plan.due', 'planner.returned', 'splits.seeded');
    leader.asked();
    leader.send({ type: 'plan.published', isSealed: false });
    expect(leader.asked()).toEqual(['scheduleReplan']);
    leader.sendAll('plan.due');
    expect(leader.asked()).toEqual(['startPlanner']);
  });

  test('leader - a sealed plan of an earlier term is kept', async () => {
    const leader = await leading();
    leader.sendAll('plan.kept');
    expect([leader.state, leader.asked()]).toEqual([
      expect.stringContaining('planning.sealed'),
      [],
    ]);
  });

  test('leader - a planner that throws is called again after its pause', async () => {
    const leader = await leading();
    leader.sendAll('plan.due');
    leader.asked();
    leader.send({ type: 'planner.threw', pauseMs: 1_000 });
    await leader.advance(999);
    expect(leader.asked()).toEqual([]);
    await leader.advance(1);
    expect(leader.asked()).toEqual(['startPlanner']);
  });

  test('leader - a plan that was lost is planned anew, sealed or not, and once', async () => {
    const leader = await leading();
    leader.sendAll('plan.kept', 'plan.lost', 'plan.lost');
    expect(leader.asked()).toEqual(['startPlanner']);
    leader.sendAll('planner.returned', 'splits.seeded');
    leader.send({ type: 'plan.published', isSealed: false });
    leader.asked();
    leader.sendAll('plan.lost');
    expect(leader.asked()).toEqual(['startPlanner']);
  });

  test('leader - a retry that is due does not outlive the run it was for', async () => {
    const leader = await leading();
    leader.sendAll('plan.due');
    leader.send({ type: 'planner.threw', pauseMs: 1_000 });
    leader.sendAll('planner.returned', 'splits.seeded');
    leader.send({ type: 'plan.published', isSealed: false });
    leader.sendAll('plan.due');
    leader.asked();
    await leader.advance(10_000);
    expect(leader.asked()).toEqual([]);
  });

  test('leader - two words of a planner that threw are one retry', async () => {
    const leader = await leading();
    leader.sendAll('plan.due');
    leader.asked();
    leader.send({ type: 'planner.threw', pauseMs: 1_000 });
    leader.send({ type: 'planner.threw', pauseMs: 3_000 });
    await leader.advance(10_000);
    expect(leader.asked()).toEqual(['startPlanner']);
  });
});

describe('balancing', () => {
  test('leader - many changes at once are one decision', async () => {
    const leader = await leading();
    changed(leader, 200);
    await leader.advance(100);
    changed(leader, 200);
    changed(leader, 200);
    await leader.advance(99);
    expect(leader.asked()).toEqual([]);
    await leader.advance(1);
    expect(leader.asked()).toEqual(['balance']);
    leader.sendAll('assignments.written');
    await leader.advance(60_000);
    expect(leader.asked()).toEqual([]);
    expect(leader.state).toContain('balancing.settled');
  });

  test('leader - a change while assignments are written leads to another decision', async () => {
    const leader = await leading();
    changed(leader);
    await leader.advance(200);
    leader.asked();
    changed(leader, 500);
    expect(leader.timers).toEqual([]);
    leader.sendAll('assignments.written');
    expect(leader.state).toContain('balancing.dirty');
    await leader.advance(499);
    expect(leader.asked()).toEqual([]);
    await leader.advance(1);
    expect(leader.asked()).toEqual(['balance']);
    leader.sendAll('assignments.written');
    expect(leader.state).toContain('balancing.settled');
  });
});

describe('judging', () => {
  test.each([
    ['a split that can still run', ['judgement.open']],
    ['a plan that moved under the verdict', ['judgement.reached', 'judgement.open']],
  ])('leader - %s opens the judgement again', async (_what, types) => {
    const leader = await leading();
    leader.sendAll('judgement.due', ...types);
    leader.asked();
    expect(leader.state).toContain('judging.open');
    leader.sendAll('judgement.due');
    expect(leader.asked()).toEqual(['readSplits']);
  });

  test('leader - a verdict stands until it is cleared', async () => {
    const leader = await leading();
    leader.sendAll('verdict.found', 'judgement.due');
    expect([leader.state, leader.asked()]).toEqual([
      expect.stringContaining('judging.decided'),
      [],
    ]);
    leader.sendAll('verdict.cleared', 'judgement.due');
    expect(leader.asked()).toEqual(['readSplits']);
  });
});

describe('the end of a term', () => {
  test.each(['term.lost', 'session.expired'])(
    'leader - %s deposes: nothing is written from here on',
    async (type) => {
      const leader = await leading();
      leader.sendAll('plan.due');
      changed(leader);
      leader.send({ type: 'planner.threw', pauseMs: 1_000 });
      leader.asked();
      leader.sendAll(type);
      expect([leader.state, leader.asked()]).toEqual([
        'deposed',
        ['endTerm', 'closeLeaderSession'],
      ]);
      expect(leader.clock.pendingTimers).toBe(0);
      leader.sendAll('planner.returned', 'splits.seeded', 'assignments.written', 'balance.due');
      await leader.advance(60_000);
      expect([leader.state, leader.asked()]).toEqual(['deposed', []]);
      leader.sendAll('term.closed');
      expect(leader.state).toBe('following');
    },
  );

  test('leader - an unhealthy leader ends its term, then resigns, and may stand again', async () => {
    const leader = await leading();
    leader.sendAll('term.unhealthy');
    expect([leader.state, leader.asked()]).toEqual([
      'resigning',
      ['endTerm', 'requestResignation'],
    ]);
    absent(leader, 0);
    await leader.advance(0);
    expect(leader.state).toBe('resigning');
    leader.sendAll('term.closed');
    absent(leader, 100);
    await leader.advance(100);
    leader.sendAll('session.opened', 'election.won');
    expect(leader.state).toBe(
      'leading.planning.idle leading.balancing.settled leading.judging.open',
    );
  });

  test('leader - a leader that is leaving resigns and departs', async () => {
    const leader = await leading();
    leader.sendAll('worker.parting');
    expect([leader.state, leader.asked()]).toEqual([
      'resigning',
      ['endTerm', 'requestResignation'],
    ]);
    leader.sendAll('term.closed');
    expect(leader.state).toBe('departed');
  });

  test.each([
    ['term.unhealthy', 'resigning'],
    ['term.lost', 'deposed'],
  ])(
    'leader - a worker that leaves after %s departs when its term is closed',
    async (type, state) => {
      const leader = await leading();
      leader.sendAll(type, 'worker.parting');
      expect(leader.state).toBe(state);
      leader.sendAll('term.closed');
      expect(leader.state).toBe('departed');
    },
  );
});
