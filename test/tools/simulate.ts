/**
 * Runs many simulated fleets: `npm run simulate -- --runs 1000`. Every run has a seed of its own and replays from it to the
 * byte: `npm run simulate -- --seed 17`; what fails is made as small as it still fails.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { scenarioOf, type ScenarioSize } from '../../src/testing/simulation/draw.ts';
import { runScenario } from '../../src/testing/simulation/runner.ts';
import type { Scenario } from '../../src/testing/simulation/scenario.ts';
import { shrink } from '../../src/testing/simulation/shrink.ts';
import { added, NO_RUNS, type Tally, tallyOf } from '../../src/testing/simulation/tally.ts';
import { type Job, runJob } from './simulate-worker.ts';

const USAGE = `npm run simulate -- [options]
  --runs N    how many fleets to run; 100 when absent
  --from S    the first seed; 1 when absent. Runs have seeds S, S+1, ...
  --seed S    replay the run of one seed; when it fails, find the smallest scenario that still does
  --jobs J    threads; all cores when absent
  --size W    full or small; full when absent
  --json      print { runs, events, commits, takeovers, faults, violations } and nothing else
Exits with 1 when a promise was broken, with 2 for bad options.`;

const SEED_MAX = 2 ** 32 - 1;
/** Seeds handed to a thread at once. */
const SEEDS_PER_JOB = 5;
const PROGRESS_MS = 2_000;
const VIOLATIONS_SHOWN = 20;

interface Options {
  readonly runs: number;
  readonly from: number;
  readonly seed: number | undefined;
  readonly jobs: number;
  readonly size: ScenarioSize;
  readonly isJson: boolean;
}

const options = optionsOf(process.argv.slice(2));
const tally = options.seed === undefined ? await runAll(options) : await replay(options.seed);
if (options.isJson) console.log(JSON.stringify(tally));
else await report(tally);
process.exitCode = tally.violations.length > 0 ? 1 : 0;

function optionsOf(args: string[]): Options {
  try {
    const { values } = parseArgs({
      args,
      options: {
        runs: { type: 'string' },
        from: { type: 'string' },
        seed: { type: 'string' },
        jobs: { type: 'string' },
        size: { type: 'string' },
        json: { type: 'boolean' },
        help: { type: 'boolean' },
      },
    });
    if (values.help === true) {
      console.log(USAGE);
      process.exit(0);
    }
    const number = (name: 'runs' | 'from' | 'seed' | 'jobs', least: number, most: number) => {
      const text = values[name];
      if (text === undefined) return undefined;
      const value = /^\d+$/.test(text) ? Number(text) : NaN;
      if (value >= least && value <= most) return value;
      throw new Error(`--${name} ${text}: must be a whole number from ${least} to ${most}`);
    };
    const { size = 'full' } = values;
    if (size !== 'full' && size !== 'small')
      throw new Error(`--size ${size}: must be full or small`);
    const from = number('from', 0, SEED_MAX) ?? 1;
    const runs = number('runs', 1, 10_000_000) ?? 100;
    if (from + runs - 1 > SEED_MAX) throw new Error(`--from ${from}: seeds end at ${SEED_MAX}`);
    return {
      runs,
      from,
      seed: number('seed', 0, SEED_MAX),
      jobs: number('jobs', 1, 256) ?? availableParallelism(),
      size,
      isJson: values.json === true,
    };
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exit(2);
  }
}

async function replay(seed: number): Promise<Tally> {
  const { report: run } = await runScenario(scenarioOf(seed, options.size));
  return tallyOf(run);
}

/** Threads take seeds by the handful until all are taken. */
async function runAll({ runs, from, jobs, size, isJson }: Options): Promise<Tally> {
  let total = NO_RUNS;
  let next = from;
  const end = from + runs;
  const startMs = performance.now();
  const progress = setInterval(() => {
    if (isJson) return;
    const seconds = Math.round((performance.now() - startMs) / 1_000);
    const [first] = total.violations;
    const where = first === undefined ? '' : ` (first: --seed ${first.seed}, ${first.check})`;
    console.error(
      `${total.runs} of ${runs} runs, ${seconds} s, violations: ${total.violations.length}${where}`,
    );
  }, PROGRESS_MS);
  const nextJob = (): Job | null => {
    if (next >= end) return null;
    const job: Job = { from: next, to: Math.min(end, next + SEEDS_PER_JOB), size };
    next = job.to;
    return job;
  };
  const runHere = async (): Promise<void> => {
    for (let job = nextJob(); job !== null; job = nextJob())
      total = added(total, await runJob(job));
  };
  const runInThread = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const worker = new Worker(new URL('./simulate-worker.js', import.meta.url), {
        // Much is made and soon forgotten.
        resourceLimits: { maxYoungGenerationSizeMb: 64 },
      });
      const hand = (): void => {
        const job = nextJob();
        if (job !== null) worker.postMessage(job);
        else void worker.terminate().then(() => resolve());
      };
      worker.on('message', (tally: Tally) => {
        total = added(total, tally);
        hand();
      });
      worker.on('error', reject);
      hand();
    });
  const work = jobs === 1 ? runHere : runInThread;
  await Promise.all(Array.from({ length: Math.min(jobs, runs) }, work));
  clearInterval(progress);
  return total;
}

async function report({ violations, faults, ...counts }: Tally): Promise<void> {
  console.log(counts);
  console.log('faults that struck:', faults);
  if (violations.length === 0) {
    console.log('no promise was broken');
    return;
  }
  const size = options.size === 'full' ? '' : ` --size ${options.size}`;
  for (const { seed, check, text } of violations.slice(0, VIOLATIONS_SHOWN)) {
    console.log(`\nseed ${seed}, ${check}: ${text}`);
    if (options.seed === undefined)
      console.log(`replay: npm run simulate -- --seed ${seed}${size}`);
  }
  const more = violations.length - VIOLATIONS_SHOWN;
  if (more > 0) console.log(`\nand ${more} more`);
  const [{ seed, check }] = violations as [(typeof violations)[number]];
  if (options.seed === undefined) return;
  console.log('\nlooking for the smallest scenario that fails so ...');
  const breaks = async (candidate: Scenario): Promise<boolean> =>
    (await runScenario(candidate)).report.violations.some((one) => one.check === check);
  const { scenario, tries } = await shrink(scenarioOf(seed, options.size), breaks);
  const smallest = await runScenario(scenario);
  console.log(`after ${tries} tries:\n${JSON.stringify(scenario)}`);
  for (const one of smallest.report.violations) console.log(`${one.check}: ${one.text}`);
}
