/**
 * Tries every deliberate mistake of `test/mutants/mutants.ts`: patches a copy of the tree, and looks who notices: the
 * simulator, or else a test of the charts, or else the scenarios that the mistake names.
 *
 *   npm run mutants                  all, and writes the table into test/README.md
 *   npm run mutants -- --only lease  those whose mistake has the word; writes nothing
 *
 * Exits with 1 when a mistake was not noticed.
 */
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { type Mutant, MUTANTS } from '../mutants/mutants.ts';
import type { Probe } from './mutants-probe.ts';

/** Who noticed. */
interface Caught {
  readonly by: string;
  readonly runs: string;
}

const root = path.resolve(import.meta.dirname, '../..');
const README = path.join(root, 'test/README.md');
const BEGIN = '<!-- mutants:begin -->';
const END = '<!-- mutants:end -->';
const PARTS = ['src', 'machines', 'test', 'package.json', 'tsconfig.json'];
/** Not whether diagrams are fresh or names good: what the charts do. */
const CHART_TESTS =
  'test/machines/(real|composed|paths|leader|peer|presence|tenancy|writing|session|link|follow|departure)';
/** Names of single tests are printed only when asked for. */
const TEST_FLAGS = ['--maxWorkers=1', '--bail', '--verbose'];
const PROBE_MS_MAX = 300_000;
/** Fleets run at once. */
const JOBS = 2;

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    runs: { type: 'string', default: '300' },
  },
});
const wanted = MUTANTS.filter(({ mistake }) => mistake.includes(values.only ?? ''));
const results = new Map<Mutant, Caught | null>();
const waiting = [...wanted];
await Promise.all(Array.from({ length: JOBS }, work));
if (values.only === undefined) await writeTable();
process.exitCode = [...results.values()].includes(null) ? 1 : 0;

async function work(): Promise<void> {
  for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
    const caught = await tried(mutant);
    results.set(mutant, caught);
    console.log(
      `${mutant.mistake}: ${caught === null ? 'NOT NOTICED' : `${caught.by}, ${caught.runs}`}`,
    );
  }
}

async function tried(mutant: Mutant): Promise<Caught | null> {
  const copy = mkdtempSync(path.join(tmpdir(), 'leasehold-mutant-'));
  try {
    for (const part of PARTS)
      cpSync(path.join(root, part), path.join(copy, part), { recursive: true });
    symlinkSync(path.join(root, 'node_modules'), path.join(copy, 'node_modules'));
    for (const edit of mutant.edits) apply(copy, edit);
    return (await bySimulator(copy)) ?? (await byCharts(copy)) ?? (await byScenarios(copy, mutant));
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function apply(copy: string, { file, find, replace }: Mutant['edits'][number]): void {
  const at = path.join(copy, file);
  const parts = readFileSync(at, 'utf8').split(find);
  if (parts.length !== 2)
    throw new Error(`${file}: ${parts.length - 1} places read ${JSON.stringify(find)}`);
  writeFileSync(at, parts.join(replace));
}

async function bySimulator(copy: string): Promise<Caught | null> {
  const probe = ['--import', 'tsx', 'test/tools/mutants-probe.ts', values.runs];
  const { stdout, isLate } = await run(copy, probe);
  const lines = stdout.trimEnd().split('\n');
  const begun = lines.findLast((line) => /^\d+$/.test(line)) ?? '1';
  if (isLate) return { by: 'simulator: a run never comes to an end', runs: begun };
  const line = lines.at(-1)!;
  if (!line.startsWith('{'))
    return { by: 'simulator: the process ends with an error', runs: begun };
  const { runs, check } = JSON.parse(line) as Probe;
  return runs === null ? null : { by: `simulator: ${check}`, runs: String(runs) };
}

function byCharts(copy: string): Promise<Caught | null> {
  return byTests(copy, CHART_TESTS);
}

async function byScenarios(copy: string, { tests }: Mutant): Promise<Caught | null> {
  return tests === undefined ? null : byTests(copy, tests);
}

async function byTests(copy: string, tests: string): Promise<Caught | null> {
  const jest = 'node_modules/jest/bin/jest.js';
  const flags = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning'];
  const { stdout } = await run(copy, [...flags, jest, tests, ...TEST_FLAGS]);
  const failed = /✕ (.*?)(?: \(\d+ m?s\))?$/m.exec(stdout);
  return failed === null ? null : { by: `\`${failed[1]!}\``, runs: 'a test' };
}

function run(cwd: string, args: string[]): Promise<{ stdout: string; isLate: boolean }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd });
    let stdout = '';
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
    }, PROBE_MS_MAX);
    child.stdout.on('data', (data: Buffer) => (stdout += data.toString()));
    child.stderr.on('data', (data: Buffer) => (stdout += data.toString()));
    child.on('error', reject);
    child.on('close', () => {
      clearTimeout(timer);
      resolve({ stdout, isLate });
    });
  });
}

async function writeTable(): Promise<void> {
  const readme = readFileSync(README, 'utf8');
  const begin = readme.indexOf(BEGIN);
  const end = readme.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`test/README.md lacks ${BEGIN} and ${END}`);
  const rows = wanted.map((mutant) => {
    const caught = results.get(mutant);
    return `| ${mutant.mistake} | ${mutant.rules} | ${caught?.by ?? 'nobody'} | ${caught?.runs ?? ''} |`;
  });
  const table = [
    '| mistake | rules | noticed by | after runs |',
    '| - | - | - | - |',
    ...rows,
  ].join('\n');
  const text = `${readme.slice(0, begin + BEGIN.length)}\n\n${table}\n\n${readme.slice(end)}`;
  const options = await resolveConfig(README);
  writeFileSync(README, await format(text, { ...options, parser: 'markdown' }));
}
