/** What a tenancy must do in the stories that matter. The drain deadline is 10 s, the clock starts at 0. */
import { describe, expect, test } from '@jest/globals';
import { exploredFrom } from './coverage.ts';
import { begin, chartOf, type Driven, recorderOf, drive } from './drive.ts';

type Reason = 'unassigned' | 'paused' | 'stopping';

function withdraw(tenancy: Driven, reason: Reason = 'unassigned'): void {
  tenancy.send({ type: 'assignment.withdrawn', reason, atMs: tenancy.clock.nowMs() });
}

function regain(tenancy: Driven): void {
  tenancy.send({ type: 'assignment.regained', atMs: tenancy.clock.nowMs() });
}

function land(tenancy: Driven, quarantined = false): void {
  tenancy.send({ type: 'ending.landed', quarantined });
}

function claiming(): Driven {
  const tenancy = begin('tenancy');
  tenancy.sendAll('claim.due');
  tenancy.asked();
  return tenancy;
}

function owned(): Driven {
  const tenancy = claiming();
  tenancy.sendAll('claim.won');
  tenancy.asked();
  return tenancy;
}

function draining(reason: Reason = 'unassigned'): Driven {
  const tenancy = owned();
  withdraw(tenancy, reason);
  tenancy.asked();
  return tenancy;
}

/** Asked for at 0, wanted again at 4 s. */
async function cancelled(): Promise<Driven> {
  const tenancy = draining();
  await tenancy.advance(4_000);
  regain(tenancy);
  tenancy.asked();
  return tenancy;
}

describe('claiming', () => {
  test('tenancy - a claim is asked for when it is due, and its win grants the split', () => {
    const tenancy = begin('tenancy');
    expect([tenancy.state, tenancy.asked()]).toEqual(['awaiting', []]);
    tenancy.sendAll('claim.due');
    expect([tenancy.state, tenancy.asked()]).toEqual(['claiming.wanted', ['requestClaim']]);
    tenancy.sendAll('claim.won');
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.owned', ['grantSplit']]);
  });

  test('tenancy - a claim won while unwanted is released and no split is granted', () => {
    const tenancy = claiming();
    withdraw(tenancy);
    tenancy.sendAll('claim.won');
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.closing.queued', ['requestEnding']]);
    land(tenancy);
    expect([tenancy.state, tenancy.asked()]).toEqual(['released', []]);
  });

  test('tenancy - a claim lost while wanted waits for the next chance', () => {
    const tenancy = claiming();
    tenancy.sendAll('claim.lost');
    expect(tenancy.state).toBe('awaiting');
    tenancy.sendAll('claim.due');
    expect(tenancy.asked()).toEqual(['requestClaim']);
  });

  test('tenancy - a claim lost while unwanted ends it', () => {
    const tenancy = claiming();
    withdraw(tenancy, 'paused');
    tenancy.sendAll('claim.lost');
    expect(tenancy.state).toBe('dismissed');
  });

  test('tenancy - unwanted and wanted again before the answer changes nothing', () => {
    const tenancy = claiming();
    withdraw(tenancy);
    regain(tenancy);
    tenancy.sendAll('claim.won');
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.owned', ['grantSplit']]);
  });

  test('tenancy - a stop during a claim is never taken back', () => {
    const tenancy = claiming();
    withdraw(tenancy, 'stopping');
    regain(tenancy);
    withdraw(tenancy, 'unassigned');
    regain(tenancy);
    tenancy.sendAll('claim.won');
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.closing.queued', ['requestEnding']]);
  });

  test.each(['split.ended', 'session.expired'])('tenancy - %s ends one that waits', (type) => {
    const tenancy = begin('tenancy');
    tenancy.sendAll(type);
    expect([tenancy.state, tenancy.asked()]).toEqual(['dismissed', []]);
  });

  test('tenancy - what others saw of the split does not end a claim in flight', () => {
    const tenancy = claiming();
    tenancy.sendAll('split.ended', 'lease.deleted', 'tenancy.fenced');
    expect(tenancy.state).toBe('claiming.wanted');
  });
});

describe('draining', () => {
  test('tenancy - a withdrawal marks the lease, asks for the split and starts the clock', () => {
    const tenancy = owned();
    withdraw(tenancy);
    expect(tenancy.state).toBe('held.draining');
    expect(tenancy.asked()).toEqual(['markLease', 'askForSplit']);
    expect(tenancy.timers).toEqual(['drain.expired']);
  });

  test('tenancy - the drain deadline is absolute from the first request', async () => {
    const tenancy = draining();
    await tenancy.advance(6_000);
    withdraw(tenancy, 'paused');
    tenancy.sendAll('progress.landed');
    await tenancy.advance(3_999);
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.draining', []]);
    await tenancy.advance(1);
    expect([tenancy.state, tenancy.asked()]).toEqual([
      'held.closing.queued',
      ['loseGrant', 'requestEnding'],
    ]);
    expect(tenancy.snapshot.context.isGranted).toBe(false);
    land(tenancy);
    expect(tenancy.state).toBe('lostRevoked');
  });

  test('tenancy - the deadline counts from when the request was made, not from when it is heard', async () => {
    const tenancy = owned();
    await tenancy.advance(50_000);
    tenancy.send({ type: 'assignment.withdrawn', reason: 'paused', atMs: 49_000 });
    expect(tenancy.snapshot.context.drainStartedAtMs).toBe(49_000);
    await tenancy.advance(9_999);
    expect(tenancy.state).toBe('held.draining');
    await tenancy.advance(1);
    expect(tenancy.state).toBe('held.closing.queued');
  });

  test('tenancy - a drain that finishes is a release and stops the clock', async () => {
    const tenancy = draining();
    tenancy.sendAll('drain.finished');
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.closing.queued', ['requestEnding']]);
    expect(tenancy.timers).toEqual([]);
    await tenancy.advance(20_000);
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.closing.queued', []]);
    land(tenancy);
    expect(tenancy.state).toBe('released');
  });

  test('tenancy - a decline of a drain forces it', () => {
    const tenancy = draining();
    tenancy.sendAll('drain.declined');
    expect(tenancy.asked()).toEqual(['loseGrant', 'requestEnding']);
    land(tenancy);
    expect(tenancy.state).toBe('lostRevoked');
  });

  test.each<[string, Reason[]]>([
    ['alone', ['stopping']],
    ['after another request', ['unassigned', 'stopping']],
    ['before another request', ['stopping', 'paused']],
  ])('tenancy - a stop %s is never taken back', async (_what, reasons) => {
    const tenancy = owned();
    for (const reason of reasons) withdraw(tenancy, reason);
    tenancy.asked();
    regain(tenancy);
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.draining', []]);
    await tenancy.advance(10_000);
    expect(tenancy.state).toBe('held.closing.queued');
  });
});

describe('a cancelled drain', () => {
  test('tenancy - wanted again, it tells the service and marks the lease', () => {
    const tenancy = draining();
    regain(tenancy);
    expect(tenancy.state).toBe('held.cancelledDrain');
    expect(tenancy.asked()).toEqual(['markLease', 'withdrawRequest']);
    expect(tenancy.timers).toEqual(['drain.expired']);
    expect(tenancy.snapshot.context.withdrawnFor).toBeNull();
  });

  test('tenancy - a cancelled drain is given up after a whole deadline of silence', async () => {
    const tenancy = await cancelled();
    await tenancy.advance(9_999);
    expect(tenancy.state).toBe('held.cancelledDrain');
    await tenancy.advance(1);
    expect(tenancy.asked()).toEqual(['loseGrant', 'requestEnding']);
    land(tenancy);
    expect(tenancy.state).toBe('lostRevoked');
  });

  test('tenancy - only landed progress feeds the silence clock', async () => {
    const tenancy = await cancelled();
    await tenancy.advance(9_000);
    tenancy.sendAll('progress.landed');
    await tenancy.advance(9_000);
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.cancelledDrain', []]);
    regain(tenancy);
    tenancy.sendAll('claim.due', 'claim.won', 'claim.lost', 'split.ended');
    land(tenancy);
    await tenancy.advance(999);
    expect(tenancy.state).toBe('held.cancelledDrain');
    await tenancy.advance(1);
    expect(tenancy.state).toBe('held.closing.queued');
  });

  test('tenancy - a second request after a cancelled drain keeps the first start', async () => {
    const tenancy = await cancelled();
    await tenancy.advance(3_000);
    tenancy.sendAll('progress.landed');
    withdraw(tenancy);
    expect(tenancy.asked()).toEqual(['markLease', 'askForSplit']);
    await tenancy.advance(2_999);
    expect(tenancy.state).toBe('held.draining');
    await tenancy.advance(1);
    expect([tenancy.state, tenancy.asked()]).toEqual([
      'held.closing.queued',
      ['loseGrant', 'requestEnding'],
    ]);
  });

  test('tenancy - a second request after the first deadline forces at once', async () => {
    const tenancy = await cancelled();
    await tenancy.advance(8_000);
    withdraw(tenancy);
    expect(tenancy.state).toBe('held.draining');
    await tenancy.advance(0);
    expect(tenancy.state).toBe('held.closing.queued');
  });

  test('tenancy - a drain may be cancelled twice, each time with a whole silence', async () => {
    const tenancy = await cancelled();
    await tenancy.advance(1_000);
    withdraw(tenancy);
    regain(tenancy);
    await tenancy.advance(9_999);
    expect(tenancy.state).toBe('held.cancelledDrain');
  });

  test.each(['intake.resumed', 'drain.declined'])(
    'tenancy - %s after a cancel keeps the split, and the next request is a new one',
    async (type) => {
      const tenancy = await cancelled();
      tenancy.sendAll(type);
      expect([tenancy.state, tenancy.asked()]).toEqual(['held.owned', ['markLease']]);
      expect(tenancy.timers).toEqual([]);
      await tenancy.advance(30_000);
      withdraw(tenancy);
      await tenancy.advance(9_999);
      expect(tenancy.state).toBe('held.draining');
      await tenancy.advance(1);
      expect(tenancy.state).toBe('held.closing.queued');
    },
  );

  test('tenancy - a stop of a cancelled drain is not taken back either', async () => {
    const tenancy = await cancelled();
    withdraw(tenancy, 'stopping');
    regain(tenancy);
    expect(tenancy.state).toBe('held.draining');
  });

  test('tenancy - a handler that ends after a cancel has released the split', async () => {
    const tenancy = await cancelled();
    tenancy.sendAll('drain.finished');
    expect(tenancy.asked()).toEqual(['requestEnding']);
    land(tenancy);
    expect(tenancy.state).toBe('released');
  });
});

describe('ending', () => {
  const HELD: Readonly<Record<string, () => Driven | Promise<Driven>>> = {
    owned,
    draining,
    cancelledDrain: cancelled,
  };

  test.each(
    Object.keys(HELD).flatMap((state) => [
      { state, type: 'split.complete', quarantined: false, end: 'completed' },
      { state, type: 'split.release', quarantined: false, end: 'released' },
      { state, type: 'split.fail', quarantined: false, end: 'failed' },
      { state, type: 'split.fail', quarantined: true, end: 'quarantined' },
    ]),
  )('tenancy - $type in $state ends $end, and the grant stands until then', async (story) => {
    const tenancy = await HELD[story.state]!();
    tenancy.sendAll(story.type);
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.closing.queued', ['requestEnding']]);
    expect(tenancy.snapshot.context.ending).toBe(story.type.replace('split.', ''));
    land(tenancy, story.quarantined);
    expect([tenancy.state, tenancy.asked()]).toEqual([story.end, []]);
    expect(tenancy.timers).toEqual([]);
  });

  test.each(
    [...Object.keys(HELD), 'closing'].flatMap((state) => [
      { state, type: 'tenancy.fenced', end: 'lostFenced' },
      { state, type: 'session.expired', end: 'lostStarved' },
      {
        state,
        type: state === 'closing' ? 'tenancy.starved' : 'lease.deleted',
        end: 'lostStarved',
      },
    ]),
  )('tenancy - $type in $state loses the grant: $end', async ({ state, type, end }) => {
    const tenancy = await (HELD[state] ?? owned)();
    if (state === 'closing') tenancy.sendAll('split.release');
    tenancy.asked();
    tenancy.sendAll(type);
    expect([tenancy.state, tenancy.asked()]).toEqual([end, ['loseGrant']]);
    expect(tenancy.timers).toEqual([]);
  });

  test('tenancy - once the last write was sent its answer decides, not who is seen to have the split', () => {
    const tenancy = owned();
    tenancy.sendAll('split.release', 'ending.sent');
    tenancy.asked();
    tenancy.sendAll('tenancy.fenced', 'lease.deleted');
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.closing.sent', []]);
    tenancy.sendAll('ending.refused');
    expect([tenancy.state, tenancy.asked()]).toEqual(['lostFenced', ['loseGrant']]);
  });

  test('tenancy - a last write may have landed from when it was not answered until it is sent again', () => {
    const tenancy = owned();
    tenancy.sendAll('split.release', 'ending.sent');
    expect(tenancy.snapshot.hasTag('mayHaveLanded')).toBe(false);
    tenancy.sendAll('ending.unanswered', 'ending.unanswered');
    expect(tenancy.snapshot.hasTag('mayHaveLanded')).toBe(true);
    tenancy.sendAll('ending.sent');
    expect([tenancy.state, tenancy.snapshot.hasTag('mayHaveLanded')]).toEqual([
      'held.closing.sent',
      false,
    ]);
  });

  test('tenancy - nothing calls the last write back', async () => {
    const tenancy = owned();
    tenancy.sendAll('split.fail');
    tenancy.asked();
    regain(tenancy);
    withdraw(tenancy, 'stopping');
    tenancy.sendAll('split.complete', 'split.release', 'lease.deleted', 'drain.declined');
    await tenancy.advance(60_000);
    expect([tenancy.state, tenancy.asked()]).toEqual(['held.closing.queued', []]);
    land(tenancy);
    expect(tenancy.state).toBe('failed');
  });

  test('tenancy - what is said of attempts matters to a failure only', () => {
    const tenancy = owned();
    tenancy.sendAll('split.release');
    land(tenancy, true);
    expect(tenancy.state).toBe('released');
  });

  test('tenancy - on every way the split is granted once at most, and lost exactly in the ends that say so', async () => {
    const chart = chartOf('tenancy');
    const recorder = recorderOf(chart.machine);
    const ends = new Set<string>();
    for (const { path } of exploredFrom(chart)[0]!.reached) {
      const tenancy = drive(recorder, chart.exampleInput);
      const seen = new Set<string>();
      for (const event of path) {
        await tenancy.fire(event);
        seen.add(tenancy.state);
      }
      const asked = tenancy.asked();
      const count = (name: string): number => asked.filter((one) => one === name).length;
      const { snapshot, state } = tenancy;
      const way = path.map(({ type }) => type).join(' > ');
      ends.add(state);
      expect([way, count('grantSplit')]).toEqual([way, seen.has('held.owned') ? 1 : 0]);
      const isKept = snapshot.hasTag('mayCommit') || /completed|failed|quarantined/.test(state);
      if (isKept) expect([way, count('grantSplit'), count('loseGrant')]).toEqual([way, 1, 0]);
      if (state === 'dismissed') expect([way, asked.includes('loseGrant')]).toEqual([way, false]);
      if (state.startsWith('lost')) expect([way, count('loseGrant') > 0]).toEqual([way, true]);
      if (state === 'released') expect([way, count('loseGrant')]).toEqual([way, 0]);
      const hasSplit = count('grantSplit') > 0 && count('loseGrant') === 0;
      expect([way, snapshot.context.isGranted]).toEqual([way, hasSplit]);
    }
    expect(ends.size).toBe(17);
  }, 60_000);
});
