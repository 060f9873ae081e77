/** What leadership must do in the stories that matter. */
import { describe, expect, test } from '@jest/globals';
import { begin, type Driven } from './drive.ts';

const reason = 'told why';

function absent(leader: Driven, delayMs: number): void {
  leader.send({ type: 'leader.absent', delayMs });
}

function changed(leader: Driven, delayMs = 200): void {
  leader.send({ type: 'inputs.changed', delayMs });
}

/** Nobody leads and its turn has come. */
async function opening(): Promise<Driven> {
  const leader = begin('leader');
  absent(leader, 100);
  await leader.advance(100);
  leader.asked();
  return leader;
}

async function standing(): Promise<Driven> {
  const leader = await opening();
  leader.sendAll('session.opened');
  leader.asked();
  return leader;
}

/** Elected, and reading what it must know. */
async function elected(): Promise<Driven> {
  const leader = await standing();
  leader.sendAll('election.won');
  leader.asked();
  return leader;
}

async function leading(): Promise<Driven> {
  const leader = await elected();
  leader.sendAll('term.ready');
  leader.asked();
  return leader;
}

/** As `state` shows the three jobs of a leader. */
function governing(planning: string, balancing = 'settled', judging = 'open'): string {
  return [`planning.${planning}`, `balancing.${balancing}`, `judging.${judging}`]
    .map((one) => `leading.governing.${one}`)
    .join(' ');
}

describe('standing for election', () => {
  test('leader - a worker stands when its candidacy is due, and not before', async () => {
    const leader = begin('leader');
    expect(leader.state).toBe('following.barred');
    absent(leader, 300);
    await leader.advance(299);
    expect([leader.state, leader.asked()]).toEqual(['following.vacant', []]);
    await leader.advance(1);
    expect([leader.state, leader.asked()]).toEqual(['campaigning.opening', ['openLeaderSession']]);
    leader.sendAll('session.opened');
    expect([leader.state, leader.asked()]).toEqual(['campaigning.standing', ['requestElection']]);
    leader.sendAll('election.won');
    expect([leader.state, leader.asked()]).toEqual(['leading.opening', ['openTerm']]);
    leader.sendAll('term.ready');
    expect([leader.state, leader.asked()]).toEqual([governing('idle'), ['takeUp']]);
  });

  test('leader - a later word on the absence does not put the turn off', async () => {
    const leader = begin('leader');
    absent(leader, 100);
    await leader.advance(50);
    absent(leader, 500);
    await leader.advance(50);
    expect(leader.state).toBe('campaigning.opening');
  });

  test('leader - a leader in sight takes the turn away, and the next vacancy gives another one', async () => {
    const leader = begin('leader');
    absent(leader, 100);
    leader.sendAll('leader.seen');
    expect([leader.state, leader.timers]).toEqual(['following.led', []]);
    await leader.advance(60_000);
    expect(leader.asked()).toEqual([]);
    absent(leader, 0);
    await leader.advance(0);
    expect(leader.state).toBe('campaigning.opening');
  });

  test('leader - a worker that may not stand loses its turn', async () => {
    const leader = begin('leader');
    absent(leader, 100);
    leader.sendAll('standing.barred');
    await leader.advance(60_000);
    expect([leader.state, leader.asked()]).toEqual(['following.barred', []]);
  });

  test('leader - a plan that is missing is looked for once, and again only when that was answered', () => {
    const leader = begin('leader');
    leader.sendAll('plan.missing', 'plan.missing');
    expect([leader.state, leader.asked()]).toEqual(['following.planless', ['seekPlan']]);
    leader.sendAll('plan.sought', 'plan.missing');
    expect(leader.asked()).toEqual(['seekPlan']);
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
    ['election.lost', 'following.barred'],
    ['leader.seen', 'following.barred'],
    ['standing.barred', 'following.barred'],
    ['session.expired', 'following.barred'],
    ['worker.parting', 'departed'],
  ])('leader - %s while standing gives the session back', async (type, state) => {
    const leader = await standing();
    leader.send({ type, reason });
    expect([leader.state, leader.asked()]).toEqual([state, ['closeLeaderSession']]);
  });

  test('leader - a session that ends while another one is asked for is no end of the candidacy', async () => {
    const leader = await opening();
    leader.send({ type: 'session.expired', reason });
    leader.sendAll('session.opened');
    expect([leader.state, leader.asked()]).toEqual(['campaigning.standing', ['requestElection']]);
  });

  test('leader - a win under a session that was given up begins no term', async () => {
    const leader = await standing();
    leader.sendAll('leader.seen');
    leader.asked();
    leader.sendAll('election.won');
    expect([leader.state, leader.asked()]).toEqual(['following.barred', []]);
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
    expect(leader.state).toBe(governing('enumerating', 'settled', 'decided'));
    leader.sendAll('planner.returned');
    expect(leader.asked()).toEqual(['seedSplits']);
  });

  test('leader - a final plan is seeded, published, sealed and never asked for again', async () => {
    const leader = await leading();
    leader.sendAll('plan.due', 'planner.returned', 'splits.seeded');
    expect(leader.asked()).toEqual(['startPlanner', 'seedSplits', 'publishPlan']);
    leader.send({ type: 'plan.published', isSealed: true });
    leader.sendAll('plan.due');
    await leader.advance(3_600_000);
    expect([leader.state, leader.asked()]).toEqual([governing('sealed'), []]);
  });

  test('leader - an open plan is planned again when the replan interval is over', async () => {
    const leader = await leading();
    leader.sendAll('plan.due', 'planner.returned', 'splits.seeded');
    leader.asked();
    leader.send({ type: 'plan.published', isSealed: false });
    await leader.advance(59_999);
    expect([leader.state, leader.asked()]).toEqual([governing('idle'), []]);
    await leader.advance(1);
    expect([leader.state, leader.asked()]).toEqual([governing('enumerating'), ['startPlanner']]);
  });

  test('leader - a sealed plan of an earlier term is kept', async () => {
    const leader = await leading();
    leader.sendAll('plan.kept');
    expect([leader.state, leader.asked()]).toEqual([governing('sealed'), []]);
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

  test.each([
    ['what the planner had listed is published again', true, 'publishPlan'],
    ['with nothing in hand the planner is asked again', false, 'startPlanner'],
  ])('leader - a plan that was lost is put back once, and %s', async (_what, hasAnswer, action) => {
    const leader = await leading();
    leader.sendAll('plan.kept', 'plan.lost', 'plan.lost');
    expect([leader.state, leader.asked()]).toEqual([governing('recreating'), ['recreatePlan']]);
    leader.send({ type: 'plan.recreated', hasAnswer });
    expect(leader.asked()).toEqual([action]);
  });

  test.each([
    ['asks the planner', ['plan.due']],
    ['stores splits', ['plan.due', 'planner.returned']],
  ])(
    'leader - a plan that is lost while it %s is put back beside the run',
    async (_what, types) => {
      const leader = await leading();
      leader.sendAll(...types);
      const { state } = leader;
      leader.asked();
      leader.sendAll('plan.lost');
      leader.send({ type: 'plan.recreated', hasAnswer: false });
      expect([leader.state, leader.asked()]).toEqual([state, ['recreatePlan']]);
    },
  );

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
    await leader.advance(30_000);
    expect([leader.state, leader.asked()]).toEqual([governing('idle', 'settled'), []]);
  });

  test('leader - a change while assignments are written leads to another decision', async () => {
    const leader = await leading();
    changed(leader);
    await leader.advance(200);
    leader.asked();
    changed(leader, 500);
    expect(leader.timers).not.toContain('balance.due');
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
    expect([leader.state, leader.asked()]).toEqual([governing('idle', 'settled', 'decided'), []]);
    leader.sendAll('verdict.cleared', 'judgement.due');
    expect(leader.asked()).toEqual(['readSplits']);
  });
});

describe('the end of a term', () => {
  test.each([
    ['while it reads what it must know', elected],
    ['while it governs', leading],
  ])(
    'leader - a term that is lost %s is deposed: nothing is written from here on',
    async (_what, begun) => {
      for (const type of ['term.lost', 'session.expired']) {
        const leader = await begun();
        leader.sendAll('plan.due');
        changed(leader);
        leader.send({ type: 'planner.threw', pauseMs: 1_000 });
        leader.asked();
        leader.send({ type, reason });
        expect([leader.state, leader.asked()]).toEqual([
          'deposed',
          ['endTerm', 'closeLeaderSession'],
        ]);
        expect(leader.clock.pendingTimers).toBe(0);
        leader.sendAll('term.ready', 'planner.returned', 'splits.seeded', 'balance.due');
        await leader.advance(60_000);
        expect([leader.state, leader.asked()]).toEqual(['deposed', []]);
        leader.sendAll('term.closed');
        expect(leader.state).toBe('following.barred');
      }
    },
  );

  test('leader - an unhealthy leader ends its term, then resigns, and rests before it may stand again', async () => {
    const leader = await leading();
    leader.send({ type: 'term.unhealthy', reason, restMs: 9_000 });
    expect([leader.state, leader.asked()]).toEqual([
      'resigning',
      ['endTerm', 'requestResignation'],
    ]);
    absent(leader, 0);
    await leader.advance(0);
    expect(leader.state).toBe('resigning');
    leader.sendAll('term.closed');
    absent(leader, 0);
    leader.sendAll('leader.seen', 'standing.barred', 'plan.missing');
    await leader.advance(8_999);
    expect([leader.state, leader.asked()]).toEqual(['following.resting', []]);
    await leader.advance(1);
    absent(leader, 0);
    await leader.advance(0);
    expect(leader.state).toBe('campaigning.opening');
  });

  test('leader - a worker that may not stand goes on leading', async () => {
    const leader = await leading();
    leader.sendAll('standing.barred');
    expect([leader.state, leader.asked()]).toEqual([governing('idle'), []]);
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
      leader.send({ type, reason, restMs: 9_000 });
      leader.sendAll('worker.parting');
      expect(leader.state).toBe(state);
      leader.sendAll('term.closed');
      expect([leader.state, leader.timers]).toEqual(['departed', []]);
    },
  );
});
