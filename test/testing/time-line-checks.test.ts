import { describe, expect, test } from '@jest/globals';
import { checkRun } from '../../src/testing/checks/run-checks.ts';
import {
  after,
  assign,
  claim,
  complete,
  findings,
  gone,
  held,
  instead,
  lawful,
  lease,
  listed,
  parked,
  presence,
  split,
  type Step,
  type Story,
  storyOf,
  without,
} from './support/story.ts';

/** The lease of a runs out while its handler of `s` works on, and b takes the split over. */
function takenOver(story: Story): void {
  story.write([gone('leases/s')], 'sessionEnd');
  claim(story, 's', 'b', 2, { watermark: '5', attempts: 1 });
  granted(story, { tenancy: 1, process: 1, epoch: '2', watermark: '5' });
}

function granted(
  story: Story,
  fields: { tenancy: number; process: number; epoch: string; watermark?: string | null },
): void {
  story.tell({ kind: 'granted', split: 's', watermark: null, ...fields });
}

/** The first worker ends with an error of this code. */
function endsWith(code: string): Step[] {
  return instead('left', (s) => s.tell({ kind: 'left', process: 0, verdict: null, code }));
}

/** The session of a ends while it leads; a little later it sets the split that it had aside. */
function setsItsOwnAside(laterMs: number): Step[] {
  return after('committed', (s) => {
    s.write([split('s', s.by('a'), { ...held('a', 1), attempts: 1, watermark: '5' })], 'hand');
    s.tell({ kind: 'lost', tenancy: 0 });
    s.write([gone('leases/s'), gone('workers/a')], 'sessionEnd');
    s.pass(laterMs);
    const stamp = s.by('a');
    const fields = { ...held('a', 2), owner: null, attempts: 2, watermark: '5' };
    s.write([parked('s', stamp), split('s', stamp, { ...fields, status: 'quarantined' })]);
  });
}

describe('time line checks', () => {
  const plants: readonly [name: string, steps: Step[], found: string][] = [
    [
      'two handlers of one split in one process',
      after('committed', (s) => {
        const stamp = s.by('a');
        const record = { ...held('a', 2), watermark: '5', attempts: 1 };
        s.write([lease('s', stamp, 2, {}, 'next session'), split('s', stamp, record)]);
        granted(s, { tenancy: 1, process: 0, epoch: '2', watermark: '5' });
      }),
      'twin handlers: a was granted s at epoch 2 while its handler of epoch 1 still runs',
    ],
    [
      'a handler that begins before the one of the last owner was told of the loss',
      after('committed', takenOver),
      'overlap: b was granted s at epoch 2 while a holds it at epoch 1',
    ],
    [
      'a leader that sets its own split aside before it can have taken it back',
      setsItsOwnAside(1_000),
      'set aside: a leads and set its own s aside, 1000 ms after its session ended',
    ],
    [
      'a refusal that ends a worker which was there',
      endsWith('E_STORE_DENIED'),
      'failed: a ended with E_STORE_DENIED',
    ],
    [
      'a lease that runs out before its owner is told',
      after('committed', (s) => s.write([gone('leases/s')], 'sessionEnd')),
      'late loss: the lease of s at epoch 1 ran out before a was told of the loss',
    ],
    [
      'a commit that is accepted after the loss',
      after('committed', (s) => {
        s.tell({ kind: 'lost', tenancy: 0 });
        s.tell({ kind: 'accepted', tenancy: 0, what: 'commit', watermark: '5', isLate: true });
      }),
      'late: a commit of s at epoch 1 was accepted after the loss',
    ],
    [
      'a commit that is accepted and not stored',
      without('committed'),
      'durable: a commit of s at epoch 1 to 5 was accepted and is not stored',
    ],
    [
      'a completion that is accepted and not stored',
      instead('completed', (s) => {
        s.write([split('s', s.by('b'), { ...held('b', 2), watermark: '8' })]);
      }),
      'durable: a complete of s at epoch 2 was accepted, and the split is not completed',
    ],
    [
      'progress that no handler asked for',
      without('asked'),
      'invented: s was written at 5, which no handler asked for',
    ],
    [
      'a tenancy that begins elsewhere than the last one left off',
      instead('granted to b', (s) =>
        granted(s, { tenancy: 1, process: 1, epoch: '2', watermark: '4' }),
      ),
      'resume: b was granted s at epoch 2 at 4, and the record was at 5',
    ],
    [
      'a grant of what nobody has claimed',
      without('claimed'),
      'grant: a was granted s at epoch 1, which nobody has claimed',
    ],
    [
      'a grant of an epoch that is over',
      instead('granted to b', (s) => granted(s, { tenancy: 1, process: 1, epoch: '1' })),
      'grant: b was granted s at epoch 1, but the record is at 2 of b',
    ],
    [
      'an owner that gives up as fenced what is its own',
      after('committed', (s) => s.tell({ kind: 'fenced', process: 0, split: 's' })),
      'fenced by itself: a gave up s as fenced, and the record at epoch 1 is its own',
    ],
    [
      'a worker that ends for a watermark that has not fallen',
      endsWith('E_WATERMARK_REGRESSION'),
      'failed: a ended with E_WATERMARK_REGRESSION',
    ],
    [
      'a split that is stored and was not listed',
      instead('listed', (s) => listed(s, ['s'])),
      'plan: q was stored in generation 1, whose planner has not listed it',
    ],
    [
      'a plan that was listed for another generation',
      instead('listed', (s) => listed(s, ['s', 'q'], { generation: 0 })),
      'plan: s was stored in generation 1, whose planner has not listed it',
    ],
    [
      'a seal without a final answer',
      instead('listed', (s) => listed(s, ['s', 'q'], { finality: 'open' })),
      'plan: sealed in generation 1, whose planner has given no final answer',
    ],
    [
      'a seal before everything is stored',
      instead('listed', (s) => listed(s, ['s', 'q', 'r'])),
      'plan: sealed before r was stored',
    ],
    [
      'a split that is asked back and that nobody has taken away',
      after('committed', (s) => s.tell({ kind: 'askedBack', tenancy: 0, reason: 'unassigned' })),
      'asked back: a was asked for s, which no assignment has taken from it',
    ],
    [
      'a completion that no handler asked for',
      instead('asked by b', (s) =>
        s.tell({ kind: 'asked', tenancy: 1, what: 'commit', watermark: '8' }),
      ),
      'invented: s was completed, which no handler asked for',
    ],
    [
      'two that lead at once',
      after('leads', (s) => s.tell({ kind: 'leads', process: 1 })),
      'two leaders: b leads while a still does',
    ],
    [
      'a worker that fails for no reason of its own',
      endsWith('E_RECORD_MISSING'),
      'failed: a ended with E_RECORD_MISSING',
    ],
    [
      'a worker that stops without having been asked',
      endsWith('E_STOPPED'),
      'failed: a ended with E_STOPPED',
    ],
    [
      'a worker that takes another one for its twin',
      endsWith('E_INSTANCE_ID_TAKEN'),
      'failed: a ended with E_INSTANCE_ID_TAKEN',
    ],
    ['a verdict that no plan said', without('verdict'), 'verdict: a was told {"kind":"stalled"'],
    [
      'a stop that takes too long',
      instead('leads no more', (s) => {
        s.tell({ kind: 'stopAsked', process: 0 });
        s.pass(2_500);
      }),
      'stop: a took 3500 ms to stop',
    ],
    [
      'a handler that begins after its worker has left',
      after('b left', (s) => granted(s, { tenancy: 2, process: 1, epoch: '2', watermark: '5' })),
      'after leaving: b was granted s at epoch 2 after it had left',
    ],
    [
      'a handler that writes after its grant was lost',
      after('committed', (s) => {
        s.tell({ kind: 'lost', tenancy: 0 });
        s.tell({ kind: 'wrote', tenancy: 0, what: 'a row' });
      }),
      'write after loss: the handler of s at epoch 1 wrote a row after its grant was lost',
    ],
    [
      'a split that nobody owns at rest',
      after('released', (s) => s.tell({ kind: 'rests' })),
      'rest: s can run, and nobody owns it',
    ],
    [
      'a lease without a handler at rest',
      after('claimed by b', (s) => s.tell({ kind: 'rests' })),
      'rest: b renews the lease of s and has no handler for it',
    ],
    [
      'an assignment that is written at rest',
      after('committed', (s) => {
        s.tell({ kind: 'rests' });
        s.write([assign('a', ['s'], s.by('a'))]);
      }),
      'rest: p/job/assign/a was written though nothing had to move',
    ],
    [
      'an error that nobody caught',
      after('leads', (s) => s.tell({ kind: 'uncaught', process: 0, text: 'oh' })),
      'uncaught: oh',
    ],
  ];

  test.each(plants)('time line checks - find %s', (_name, steps, found) => {
    const broken = findings(steps).map(({ check, text }) => `${check}: ${text}`);
    expect(broken.join('\n')).toContain(found);
  });

  const excused: readonly [name: string, steps: Step[]][] = [
    [
      'an owner that was told of the loss',
      after('committed', (s) => {
        s.tell({ kind: 'lost', tenancy: 0 });
        takenOver(s);
      }),
    ],
    ['a leader that sets its own split aside once its delay is over', setsItsOwnAside(6_000)],
    [
      'a refusal that ends a worker at its start',
      after('returned by b', (s) => {
        s.tell({ kind: 'denied', process: 2 });
        s.tell({ kind: 'started', process: 2, instance: 'c', nonce: 'nc' });
        s.tell({ kind: 'left', process: 2, verdict: null, code: 'E_STORE_DENIED' });
      }),
    ],
    [
      'an owner in a store that another one has taken the place of',
      after('committed', (s) => {
        s.replace();
        s.write([split('s', s.by('a'))], 'hand');
        claim(s, 's', 'b', 1);
        granted(s, { tenancy: 1, process: 1, epoch: '1' });
        s.tell({ kind: 'lost', tenancy: 0 });
      }),
    ],
    [
      'an owner that is frozen',
      after('committed', (s) => {
        s.tell({ kind: 'disturbed', process: 0, by: 'frozen' });
        takenOver(s);
      }),
    ],
    [
      'an owner whose session was taken away',
      after('committed', (s) => {
        s.tell({ kind: 'disturbed', process: 0, by: 'robbed' });
        takenOver(s);
      }),
    ],
    [
      'an owner that is dead',
      after('committed', (s) => {
        s.tell({ kind: 'crashed', process: 0 });
        takenOver(s);
      }),
    ],
    [
      'an owner that is fenced by the next one',
      after('committed', (s) => {
        s.tell({ kind: 'lost', tenancy: 0 });
        takenOver(s);
        s.tell({ kind: 'fenced', process: 0, split: 's' });
      }),
    ],
    [
      'a worker that ends because its handler fell back',
      instead('left', (s) => {
        s.tell({ kind: 'asked', tenancy: 0, what: 'commit', watermark: '4' });
        s.tell({ kind: 'left', process: 0, verdict: null, code: 'E_WATERMARK_REGRESSION' });
      }),
    ],
    [
      'a split that is asked back because the next assignment lacks it',
      after('committed', (s) => {
        s.write([assign('a', ['q'], s.by('a'))]);
        s.tell({ kind: 'askedBack', tenancy: 0, reason: 'unassigned' });
      }),
    ],
    [
      'an owner with a twin',
      after('committed', (s) => {
        s.tell({ kind: 'started', process: 2, instance: 'a', nonce: 'twin' });
        takenOver(s);
      }),
    ],
    [
      'a handler that has ended its tenancy itself',
      after('asked by b', (s) => {
        s.write([gone('leases/s')], 'sessionEnd');
      }),
    ],
    [
      'a leader that is frozen when the next one leads',
      after('leads', (s) => {
        s.tell({ kind: 'disturbed', process: 0, by: 'frozen' });
        s.tell({ kind: 'leads', process: 1 });
      }),
    ],
    [
      'what moves once the rest is over',
      after('committed', (s) => {
        s.tell({ kind: 'rests' });
        s.tell({ kind: 'restIsOver' });
        s.write([presence('a', s.by('a'), { parting: true })]);
      }),
    ],
    ['a completion whose answer comes late', instead('completed', complete)],
  ];

  test.each(excused)('time line checks - let pass %s', (_name, steps) => {
    expect(findings(steps).filter(({ check }) => check !== 'rest')).toEqual([]);
  });

  test('time line checks - count a takeover, and no move as one', () => {
    const taken = after('committed', (s) => {
      s.tell({ kind: 'lost', tenancy: 0 });
      takenOver(s);
    });
    expect(checkRun(storyOf(lawful()).evidence()).takeovers).toBe(0);
    expect(checkRun(storyOf(taken).evidence()).takeovers).toBe(1);
  });
});
