/**
 * Whatever a chart asks for is answered by an event, in a running worker and in time, whatever becomes of the calls that carry
 * it out: a request that nobody answers is a worker that waits for ever.
 */
import { describe, expect, test } from '@jest/globals';
import { eventsOf } from '../../../../machines/diagrams/walk.ts';
import type { ChartName } from '../../../../machines/index.ts';
import { CHARTS } from '../../../../machines/index.ts';
import { fatalPlannerError } from '../../../../src/coordinator/api/planner-error.ts';
import type { StoreCall } from '../../../../src/store/faults.ts';
import { CALLS } from './calls.ts';
import { Life, type LifeOptions, type Span, TIMES } from './life.ts';
import { NO_REQUESTS, REQUESTS } from './requests.ts';

type Picks = (call: StoreCall) => boolean;
type Trouble = (life: Life, picks: Picks) => void;

const ONCE = { times: 1 } as const;
const SILENT = { silent: true } as const;

const WORKS = 'it works';
const IS_FULL = 'the store is full for long';

/** What may become of a call. */
const OUTCOMES: Readonly<Record<string, Trouble>> = {
  [WORKS]: () => undefined,
  'somebody wrote between': (life, picks) => {
    life.conflictOn(picks);
  },
  'it is lost': ({ stage }, picks) => {
    stage.client.when(picks).fail('E_OUTCOME_UNKNOWN', ONCE);
  },
  'it lands and its answer is lost': ({ stage }, picks) => {
    stage.client.when(picks).fail('E_OUTCOME_UNKNOWN, landed', ONCE);
  },
  'it is never answered': ({ stage }, picks) => {
    stage.client.when(picks).loseBefore({ ...ONCE, ...SILENT });
  },
  'the sessions are gone': (life, picks) => {
    life.loseSessionsOn(picks);
  },
  'it is refused once': ({ stage }, picks) => {
    stage.client.when(picks).deny(ONCE);
  },
  [IS_FULL]: ({ stage }, picks) => {
    stage.client.when(picks).refuse('E_STORE_FULL');
  },
  'nothing is reached for long': ({ stage }, picks) => {
    stage.client.when(picks).refuse('E_STORE_UNREACHABLE');
  },
  'nothing is answered for long': ({ stage }, picks) => {
    stage.client.when(picks).loseBefore(SILENT);
  },
  'everything lands and no answer comes for long': ({ stage }, picks) => {
    stage.client.when(picks).loseAfter(SILENT);
  },
  'it is refused for long': ({ stage }, picks) => {
    stage.client.when(picks).deny();
  },
};

const WHOLE: Span = { fromMs: 0, healedMs: TIMES.healed };

/** Requests that are no calls of a store, or only follow from others: what has to happen so that they are made. */
const SITUATIONS: Readonly<
  Record<string, { options?: LifeOptions; span?: Span; trouble?: (life: Life) => void }>
> = {
  'tenancy.askForSplit, of a service that hands back': {},
  'tenancy.askForSplit, of a service that does nothing': { options: { isDeaf: true } },
  'tenancy.withdrawRequest, of a service that goes on': {},
  'tenancy.withdrawRequest, of a service that does nothing': { options: { isDeaf: true } },
  'presence.reportExhaustion, after the last try': {
    options: { config: { startupMaxAttempts: 2 } },
    trouble: ({ stage }) => {
      stage.client.when('any').refuse('E_STORE_UNREACHABLE');
    },
  },
  'leader.takeUp, of a job without a plan': {},
  'leader.startPlanner, of one that answers': {},
  'leader.startPlanner, of one that throws': {
    options: {
      plan: () => {
        throw new Error('no such table');
      },
    },
  },
  'leader.startPlanner, of one that fails for good': {
    options: {
      plan: () => {
        throw fatalPlannerError('no such table');
      },
    },
  },
  'departure.beginDrain, of a service that does nothing': { options: { isDeaf: true } },
  'departure.beginDrain, of a service that hands back': {},
  'link.abandonAll, of a worker that is refused': {
    span: { fromMs: 20_000, healedMs: TIMES.healed },
    trouble: ({ stage }) => {
      stage.client.when('any').deny();
    },
  },
};

/** Requests that the rest of a worker is always faster than. */
const NEVER_MADE: Readonly<Record<string, string>> = {
  'presence.reportDenial':
    'The link ends a worker that is refused on its way in, and hears of it first.',
};

const namesOf = (table: Readonly<Record<string, unknown>>): string[] => Object.keys(table);
const requests = CHARTS.flatMap(({ name }) =>
  namesOf(REQUESTS[name]).map((action) => ({ chart: name, action, name: `${name}.${action}` })),
);

describe.each(CHARTS.map((chart) => ({ chart, name: chart.name })))(
  'requests of $name',
  ({ chart: { machine }, name }) => {
    test(`answers - every action of ${name} is a request, or says why it is none`, () => {
      const listed = [...namesOf(REQUESTS[name]), ...namesOf(NO_REQUESTS[name])];
      expect(listed.toSorted()).toEqual(
        namesOf(machine.implementations.actions as Record<string, unknown>).toSorted(),
      );
    });

    test(`answers - what answers a request of ${name} is an event that it takes`, () => {
      const events = eventsOf(machine);
      for (const { answers, overtakenBy } of Object.values(REQUESTS[name])) {
        expect([...answers, ...overtakenBy].filter((type) => !events.includes(type))).toEqual([]);
        expect(answers.length).toBeGreaterThan(0);
      }
    });
  },
);

test('answers - every request is tried in what may become of it', () => {
  const tried = ({ chart, action }: { chart: ChartName; action: string }): boolean =>
    CALLS[chart]?.[action] !== undefined ||
    namesOf(SITUATIONS).some((name) => name.startsWith(`${chart}.${action},`)) ||
    NEVER_MADE[`${chart}.${action}`] !== undefined;
  expect(requests.filter((request) => !tried(request))).toEqual([]);
});

/** A life in which something goes wrong, and what was not answered in it. */
async function unansweredIn(
  options: LifeOptions | undefined,
  span: Span,
  trouble: (life: Life) => void,
  isFull = false,
): Promise<{ life: Life; faults: string[] }> {
  const life = new Life(options);
  await life.live(() => {
    trouble(life);
  }, span);
  const faults = life.recorder.unanswered(span.healedMs, isFull);
  if (!life.isOver) faults.push('the worker did not leave');
  return { life, faults };
}

const withCalls = requests.filter(({ chart, action }) => CALLS[chart]?.[action] !== undefined);

test.each(withCalls)(
  'answers - $name is answered whatever becomes of its calls',
  async ({ chart, action }) => {
    const { of, span } = CALLS[chart]![action]!;
    const faults: string[] = [];
    let asked = 0;
    for (const [outcome, trouble] of Object.entries(OUTCOMES)) {
      let met = 0;
      const { life, faults: found } = await unansweredIn(undefined, span, (one) => {
        const picks = of(one.stage);
        trouble(
          one,
          (call) => {
            const isMet = picks(call);
            if (isMet) met += 1;
            return isMet;
          },
          outcome === IS_FULL,
        );
      });
      if (met === 0 && outcome !== WORKS) faults.push(`${outcome}: no such call was made`);
      asked += life.recorder.countOf(chart, action);
      faults.push(...found.map((fault) => `${outcome}: ${fault}`));
    }
    expect(asked).toBeGreaterThan(0);
    expect(faults).toEqual([]);
  },
  60_000,
);

test.each(namesOf(SITUATIONS))(
  'answers - %s, is answered',
  async (name) => {
    const { options, span = WHOLE, trouble = () => undefined } = SITUATIONS[name]!;
    const [chart, action] = name.split(/[.,]/) as [ChartName, string];
    const { life, faults } = await unansweredIn(options, span, trouble);
    expect(life.recorder.countOf(chart, action)).toBeGreaterThan(0);
    expect(faults).toEqual([]);
  },
  60_000,
);
