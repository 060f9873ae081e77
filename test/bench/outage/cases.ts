/** What happens to fleets with the default options, and what they promise then: data. */
import type { ConfigInput } from '../../../src/coordinator/api/config.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** A split of which no tenancy ends well. */
export interface Poison {
  /** Which one, counted from 0. */
  readonly split: number;
  readonly by: 'failure' | 'death';
  /** How long a tenancy of it takes to go wrong. */
  readonly afterMs: number;
  /** So many steps of it go well first; 0 when absent. */
  readonly atStep?: number;
}

/** What goes wrong for a while, and is no split's fault. */
export type Trouble = { readonly atMs: number; readonly forMs: number } & (
  | {
      /** What handlers call is away: for all splits, or for every second one. */
      readonly kind: 'downstream';
      readonly of: 'all' | 'half';
      /** How long a handler takes to find that out. */
      readonly failsAfterMs: number;
    }
  /** Every handler of one worker fails. */
  | { readonly kind: 'sickHost'; readonly worker: number; readonly failsAfterMs: number }
  /** Processes die again and again, and not of a split. */
  | { readonly kind: 'crashes'; readonly workers: readonly number[]; readonly lifeMs: number }
);

/** What a case may break, at most. Absent: nothing of it is promised. */
export interface Promised {
  readonly foundMsMax?: number;
  readonly resumedMsMax?: number;
}

/** What happens where not every poison can be found, or an innocent is taken for one, and why. */
export interface Instead {
  readonly note: string;
  readonly poisonFound?: number;
  readonly innocentMax?: number;
}

export interface OutageCase {
  readonly name: string;
  readonly splits: number;
  readonly workers: number;
  /** Commits of each split, from its beginning to its end, and how long each takes. */
  readonly steps: number;
  readonly stepMs: number;
  /** `steps` is the mean: one has a fifth of it, another nearly twice as many. */
  readonly isSpread?: boolean;
  /** An open plan, whose splits have no end. */
  readonly isEndless?: boolean;
  /** A process that is started again has the id of the one before; true when absent. */
  readonly sameIds?: boolean;
  readonly trouble?: Trouble;
  readonly poison?: readonly Poison[];
  /** The work outlasts the case, which ends once every bad split is found. */
  readonly endsWhenFound?: boolean;
  /** Everything is over by then. */
  readonly untilMs: number;
  readonly config?: ConfigInput;
  readonly promised: Promised;
  readonly instead?: Instead;
}

/** Fleets and jobs: workers and splits. */
type Size = readonly [workers: number, splits: number];

/** With the default options: an outage sets nothing aside and costs a minute, a bad split is found in ten. */
const RESUMED_MS_MAX = MINUTE;
const FOUND_MS_MAX = 10 * MINUTE;
const LAST_FOUND_MS_MAX = 30 * MINUTE;
/** After so much time a job in which nothing works is told to be at fault itself. */
const GIVE_UP_MS = 6 * HOUR;

const FAILS: Poison = { split: 0, by: 'failure', afterMs: 200 };
const KILLS: Poison = { split: 0, by: 'death', afterMs: 200 };

/**
 * Work that goes on for longer than anything may take to be found: splits of all lengths, of which one ends every few seconds
 * where more of them wait than there are lanes for.
 */
function longWork([workers, splits]: Size): Pick<
  OutageCase,
  'steps' | 'stepMs' | 'isSpread' | 'endsWhenFound'
> {
  const lanes = Math.min(splits, LANES * workers);
  const steps = Math.max(4, Math.round((LONG_STEPS * lanes) / splits));
  return { steps, stepMs: 5 * SECOND, isSpread: splits > lanes, endsWhenFound: true };
}

/** Steps of a lane, twenty minutes in all. */
const LONG_STEPS = 240;
/** About as many as a worker has. */
const LANES = 8;

/** Work that is begun when something goes wrong, and ends soon after. */
const SHORT = { steps: 12, stepMs: 5 * SECOND };
/** Little work for each, much in all. */
const TINY = { steps: 2, stepMs: 2 * SECOND };

function sizeOf([workers, splits]: Size): string {
  const jobs = splits === 1 ? 'a job of one split' : `${splits.toLocaleString('en-US')} splits`;
  return `${jobs}, ${workers === 1 ? 'one worker' : `${workers} workers`}`;
}

function span(ms: number): string {
  if (ms < MINUTE) return `${ms / SECOND} s`;
  return ms < HOUR ? `${ms / MINUTE} min` : `${ms / HOUR} h`;
}

/** What all handlers call is away. */
function outage(forMs: number, size: Size, fields: Partial<OutageCase> = {}): OutageCase {
  const [workers, splits] = size;
  const work = splits > 1_000 ? TINY : SHORT;
  // Many splits fail slowly, as by a time limit; few at once, as by a refusal.
  const failsAfterMs = splits > 1_000 ? 2 * SECOND : 50;
  const trouble: Trouble = { kind: 'downstream', of: 'all', atMs: 30_000, forMs, failsAfterMs };
  return {
    name: `outage of ${span(forMs)}: ${sizeOf(size)}`,
    workers,
    splits,
    ...work,
    trouble,
    untilMs: trouble.atMs + forMs + 30 * MINUTE,
    promised: { resumedMsMax: RESUMED_MS_MAX },
    ...fields,
  };
}

function during(forMs: number, size: Size, poison: readonly Poison[], what: string): OutageCase {
  const base = outage(forMs, size);
  return {
    ...base,
    ...longWork(size),
    name: `${what} during an ${base.name}`,
    poison,
    untilMs: base.untilMs + 30 * MINUTE,
    promised: { resumedMsMax: RESUMED_MS_MAX, foundMsMax: FOUND_MS_MAX },
  };
}

/** One bad split among healthy neighbours that go on for longer than it may take to find it. */
function among(poison: Poison, size: Size, fields: Partial<OutageCase> = {}): OutageCase {
  const [workers, splits] = size;
  const kind = poison.by === 'failure' ? 'fails' : 'kills';
  const where =
    splits === 2 ? 'one of two splits' : `one of ${splits.toLocaleString('en-US')} splits`;
  return {
    name: `${where} ${kind}: ${workers === 1 ? 'one worker' : `${workers} workers`}`,
    workers,
    splits,
    ...longWork(size),
    poison: [poison],
    untilMs: 90 * MINUTE,
    promised: { foundMsMax: FOUND_MS_MAX },
    ...fields,
  };
}

/** The neighbours have long ended when it can be found. */
function lastLeft(poison: Poison, size: Size): OutageCase {
  const base = among(poison, size);
  return {
    ...base,
    name: `the last one left: ${base.name}`,
    steps: 1,
    stepMs: 2 * SECOND,
    endsWhenFound: false,
    promised: { foundMsMax: LAST_FOUND_MS_MAX },
  };
}

function alone(poison: Poison, workers: number): OutageCase {
  const base = among(poison, [workers, 1]);
  const kind = poison.by === 'failure' ? 'fails' : 'kills';
  return {
    ...base,
    name: `a job of one split that ${kind}: ${workers === 1 ? 'one worker' : `${workers} workers`}`,
    ...(poison.by === 'failure'
      ? {
          untilMs: GIVE_UP_MS + HOUR,
          promised: { foundMsMax: GIVE_UP_MS + 10 * MINUTE },
          instead: {
            note: 'alone, it cannot be told from an outage but by time: the job is given up after giveUpAfterMs, 6 h',
          },
        }
      : {}),
  };
}

function crashes(
  workers: readonly number[],
  size: Size,
  { sameIds, lifeMs, ...fields }: Partial<OutageCase> & { sameIds: boolean; lifeMs: number },
): OutageCase {
  const [all, splits] = size;
  const whom = workers.length === all ? 'every process' : `${workers.length} of the processes`;
  const trouble: Trouble = { kind: 'crashes', workers, lifeMs, atMs: 8_000, forMs: 10 * MINUTE };
  return {
    name: `${whom} dies every ${span(lifeMs)}, ${sameIds ? 'same ids' : 'new ids'}: ${sizeOf(size)}`,
    workers: all,
    splits,
    ...SHORT,
    sameIds,
    trouble,
    untilMs: trouble.atMs + trouble.forMs + 30 * MINUTE,
    // Who is away for good is missed for a lease and the delay; then the last of its lives has to be outlived twice.
    promised: { resumedMsMax: 2 * MINUTE },
    ...fields,
  };
}

function sickHost(forMs: number, size: Size, fields: Partial<OutageCase> = {}): OutageCase {
  const [workers, splits] = size;
  const trouble: Trouble = {
    kind: 'sickHost',
    worker: workers - 1,
    atMs: 20_000,
    forMs,
    failsAfterMs: 50,
  };
  return {
    name: `one sick host for ${span(forMs)}: ${sizeOf(size)}`,
    workers,
    splits,
    ...SHORT,
    trouble,
    untilMs: trouble.atMs + forMs + 30 * MINUTE,
    promised: {},
    ...fields,
  };
}

function half(size: Size, fields: Partial<OutageCase> = {}): OutageCase {
  const base = outage(10 * MINUTE, size);
  const trouble: Trouble = { ...base.trouble!, kind: 'downstream', of: 'half', failsAfterMs: 50 };
  return {
    ...base,
    name: `half a downstream away for 10 min: ${sizeOf(size)}`,
    trouble,
    ...fields,
  };
}

/** All of them. */
export const CASES: readonly OutageCase[] = [
  // Outages
  outage(5 * SECOND, [1, 1]),
  outage(5 * SECOND, [2, 2]),
  outage(5 * SECOND, [1, 100]),
  outage(5 * SECOND, [10, 100]),
  outage(5 * SECOND, [10, 10_000]),
  outage(10 * MINUTE, [1, 1]),
  outage(10 * MINUTE, [2, 1]),
  outage(10 * MINUTE, [1, 2]),
  outage(10 * MINUTE, [2, 2]),
  outage(10 * MINUTE, [1, 100]),
  outage(10 * MINUTE, [2, 100]),
  outage(10 * MINUTE, [10, 100]),
  outage(10 * MINUTE, [10, 10_000]),
  outage(HOUR, [1, 1]),
  outage(HOUR, [2, 2]),
  outage(HOUR, [10, 100]),
  outage(12 * HOUR, [2, 8], {
    name: 'outage of 12 h: an endless job of 8 splits, 2 workers',
    isEndless: true,
    untilMs: 12 * HOUR + 5 * MINUTE,
  }),

  // A bad split that fails
  among(FAILS, [1, 100]),
  among(FAILS, [2, 100]),
  among(FAILS, [10, 100]),
  among(FAILS, [10, 10_000]),
  among(FAILS, [1, 2]),
  among(FAILS, [2, 2]),
  among(FAILS, [10, 2]),
  among({ ...FAILS, afterMs: 20 * SECOND }, [10, 100], {
    name: 'one of 100 splits fails slowly: 10 workers',
  }),
  among(FAILS, [2, 100], {
    name: 'three of 100 splits fail: 2 workers',
    poison: [FAILS, { ...FAILS, split: 40 }, { ...FAILS, split: 80, afterMs: 5 * SECOND }],
  }),
  lastLeft(FAILS, [1, 100]),
  lastLeft(FAILS, [2, 2]),
  lastLeft(FAILS, [10, 100]),
  alone(FAILS, 1),
  alone(FAILS, 2),
  among(FAILS, [2, 8], {
    name: 'one of 8 splits of an endless job fails: 2 workers',
    isEndless: true,
    untilMs: 15 * MINUTE,
  }),
  among(FAILS, [2, 1], {
    name: 'the only split of an endless job fails: 2 workers',
    isEndless: true,
    untilMs: 12 * HOUR,
    promised: {},
    instead: {
      note: 'an endless job never gets a verdict: it is tried again every 30 s, and named in status',
      poisonFound: 0,
    },
  }),
  during(5 * SECOND, [2, 100], [FAILS], 'one fails'),
  during(10 * MINUTE, [1, 100], [FAILS], 'one fails'),
  during(10 * MINUTE, [2, 2], [FAILS], 'one fails'),
  during(10 * MINUTE, [10, 100], [FAILS], 'one fails'),
  during(HOUR, [2, 100], [FAILS], 'one fails'),

  // A bad split that kills its process
  among(KILLS, [1, 100]),
  among(KILLS, [2, 100]),
  among(KILLS, [10, 100]),
  among(KILLS, [10, 100], { name: 'one of 100 splits kills, new ids: 10 workers', sameIds: false }),
  among(KILLS, [1, 100], { name: 'one of 100 splits kills, new ids: one worker', sameIds: false }),
  among(KILLS, [10, 10_000]),
  among(KILLS, [1, 2]),
  among(KILLS, [2, 2]),
  among(KILLS, [2, 2], { name: 'one of two splits kills, new ids: 2 workers', sameIds: false }),
  among({ ...KILLS, afterMs: 20 * SECOND }, [2, 100], {
    name: 'one of 100 splits kills after 20 s: 2 workers',
  }),
  among(KILLS, [10, 100], {
    name: 'three of 100 splits kill: 10 workers',
    poison: [KILLS, { ...KILLS, split: 40 }, { ...KILLS, split: 80, afterMs: 3 * SECOND }],
    promised: { foundMsMax: 2 * FOUND_MS_MAX },
  }),
  among(FAILS, [10, 100], {
    name: 'one of 100 splits fails and one kills: 10 workers',
    poison: [FAILS, { ...KILLS, split: 50 }],
  }),
  lastLeft(KILLS, [1, 100]),
  lastLeft(KILLS, [2, 2]),
  lastLeft(KILLS, [10, 100]),
  alone(KILLS, 1),
  alone(KILLS, 2),
  among(KILLS, [2, 8], {
    name: 'one of 8 splits of an endless job kills: 2 workers',
    isEndless: true,
    untilMs: 15 * MINUTE,
  }),
  during(10 * MINUTE, [1, 100], [KILLS], 'one kills'),
  during(10 * MINUTE, [2, 2], [KILLS], 'one kills'),
  during(10 * MINUTE, [10, 100], [KILLS], 'one kills'),
  during(10 * MINUTE, [10, 100], [FAILS, { ...KILLS, split: 50 }], 'one fails and one kills'),
  among({ ...KILLS, atStep: 3, afterMs: 2 * SECOND }, [2, 100], {
    name: 'one of 100 splits progresses, then kills: 2 workers',
  }),
  among({ ...KILLS, atStep: 3, afterMs: 2 * SECOND }, [10, 100], {
    name: 'one of 100 splits progresses, then kills, new ids: 10 workers',
    sameIds: false,
  }),
  {
    ...alone({ ...KILLS, atStep: 3 }, 1),
    name: 'a job of one split that progresses, then kills: one worker',
  },

  // Processes that die for reasons of their own
  crashes([0], [1, 4], { sameIds: true, lifeMs: 2 * SECOND }),
  crashes([0], [1, 4], { sameIds: false, lifeMs: 2 * SECOND }),
  crashes([0], [1, 1], { sameIds: true, lifeMs: 2 * SECOND }),
  crashes([1], [2, 100], { sameIds: true, lifeMs: 2 * SECOND }),
  crashes([1], [2, 100], { sameIds: false, lifeMs: 2 * SECOND }),
  crashes([8, 9], [10, 100], { sameIds: true, lifeMs: 2 * SECOND }),
  crashes([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [10, 100], { sameIds: false, lifeMs: 2 * SECOND }),
  crashes([0], [1, 8], { sameIds: true, lifeMs: 90 * SECOND }),
  crashes([0, 1], [2, 100], { sameIds: false, lifeMs: 3 * MINUTE }),

  // One host, half a downstream
  sickHost(10 * MINUTE, [2, 2]),
  sickHost(10 * MINUTE, [2, 100]),
  sickHost(10 * MINUTE, [10, 100]),
  sickHost(HOUR, [2, 100], {
    ...longWork([2, 100]),
    name: 'one sick host for 1 h: 100 long splits, 2 workers',
  }),
  sickHost(10 * MINUTE, [10, 100], {
    ...longWork([10, 100]),
    name: 'one sick host for 10 min, and one bad split: 100 splits, 10 workers',
    poison: [FAILS],
    promised: { foundMsMax: FOUND_MS_MAX },
  }),
  half([1, 100]),
  half([2, 100]),
  half([10, 100]),
  half([10, 100], {
    ...longWork([10, 100]),
    name: 'half a downstream away for 10 min: 100 long splits, 10 workers',
  }),
  half([10, 10_000], { ...TINY }),
  half([2, 2], {
    instead: {
      note: 'one of two that fails for ten minutes while the other one works cannot be told from a bad split, and is set aside',
      innocentMax: 1,
    },
    promised: {},
  }),
];
