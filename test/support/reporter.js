/**
 * Jest reporter: the summary line, and the promise of test/SCENARIOS.md.
 *
 * Prints `N passed, N failed, N skipped` as the last line of standard output. A test file that could not run counts as
 * one failed; pending and todo tests count as skipped.
 *
 * After a full run (no filter of any kind) every test named in test/SCENARIOS.md must have passed in memory, and the handful
 * on etcd; after a full `npm run soak` every one for both stores must have passed on etcd. Otherwise Jest exits non-zero.
 * Plain JavaScript, because Jest loads reporters without a transform. Tests: test/tidy.test.ts.
 */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

const SCENARIOS = 'test/SCENARIOS.md';
/** What `npm run soak` runs in place of the tests. */
const SOAK_TESTS = '**/*.soak.ts';
/** The test files that run scenarios on etcd. */
const SCENARIOS_ON_ETCD = /[\\/]etcd[\\/]scenarios\.(test|soak)\.ts$/;

/**
 * Splits a markdown table row into trimmed cells; `\|` is a pipe inside a cell.
 *
 * @param {string} row
 * @returns {string[]}
 */
function cellsOf(row) {
  const cells = row
    .trim()
    .replace(/^\|/, '')
    .split(/(?<!\\)\|/);
  if (cells.at(-1)?.trim() === '') cells.pop();
  return cells.map((cell) => cell.trim().replaceAll('\\|', '|'));
}

/**
 * Reads the promised tests: for each table row, the text in backticks in its last column.
 *
 * @param {string} markdown
 * @returns {{ titles: string[], untitled: string[] }} `untitled` holds the rows that name no test.
 */
export function promisedTests(markdown) {
  const rows = markdown.split('\n').map((line) => (line.trim().startsWith('|') ? line : undefined));
  const isRule = (/** @type {string | undefined} */ row) =>
    row !== undefined && cellsOf(row).every((cell) => /^:?-+:?$/.test(cell));
  /** @type {string[]} */
  const titles = [];
  /** @type {string[]} */
  const untitled = [];
  rows.forEach((row, index) => {
    if (row === undefined || isRule(row) || isRule(rows[index + 1])) return;
    const quoted = [...(cellsOf(row).at(-1) ?? '').matchAll(/`([^`]+)`/g)].map((match) => match[1]);
    if (quoted.length === 0) untitled.push(row.trim());
    for (const title of quoted) if (title !== undefined) titles.push(title);
  });
  return { titles, untitled };
}

/**
 * The promised tests that must pass on a real etcd too: those with `both` in the column before the last.
 *
 * @param {string} markdown
 * @param {boolean} isHandful  Only the first of each heading, as `npm test` runs them.
 * @returns {string[]}
 */
export function titlesOnEtcd(markdown, isHandful) {
  return markdown.split(/^## /m).flatMap((part) => {
    const rows = part.split('\n').filter((line) => cellsOf(line).at(-2) === 'both');
    const { titles } = promisedTests(rows.join('\n'));
    return isHandful ? titles.slice(0, 1) : titles;
  });
}

/**
 * Says what test/SCENARIOS.md promises and this run did not show, one sentence a line. Empty when the promise is kept.
 *
 * @param {string} markdown
 * @param {ReadonlySet<string>} passed  Own titles and full names of the tests that passed.
 * @returns {string[]}
 */
export function brokenPromises(markdown, passed) {
  const { titles, untitled } = promisedTests(markdown);
  return [
    ...untitled.map((row) => `names no test in its last column: ${row}`),
    ...titles
      .filter((title) => !passed.has(title))
      .map((title) => `no test of this name passed: ${title}`),
  ];
}

/**
 * The same for the tests that must pass on etcd.
 *
 * @param {string} markdown
 * @param {ReadonlySet<string>} passed
 * @param {boolean} isHandful
 * @returns {string[]}
 */
function brokenOnEtcd(markdown, passed, isHandful) {
  return titlesOnEtcd(markdown, isHandful)
    .filter((title) => !passed.has(title))
    .map((title) => `no test of this name passed on etcd: ${title}`);
}

/**
 * @param {import('@jest/reporters').AggregatedResult} results
 * @returns {string}
 */
export function summaryOf(results) {
  const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
  const skipped = results.numPendingTests + results.numTodoTests;
  return `${results.numPassedTests} passed, ${failed} failed, ${skipped} skipped`;
}

/**
 * Whether no test was left out by a filter.
 *
 * @param {import('@jest/reporters').Config.GlobalConfig} config
 * @returns {boolean}
 */
function isFullRun(config) {
  return !(
    config.testPathPatterns.patterns.length > 0 ||
    config.nonFlagArgs.length > 0 ||
    config.testNamePattern ||
    config.runTestsByPath ||
    config.findRelatedTests ||
    config.onlyChanged ||
    config.onlyFailures ||
    config.filter ||
    config.shard ||
    config.watch ||
    config.watchAll
  );
}

/**
 * Own titles and full names of the tests that passed.
 *
 * @param {import('@jest/reporters').AggregatedResult} results
 * @param {boolean} isOnEtcd
 * @returns {Set<string>}
 */
function passedIn(results, isOnEtcd) {
  return new Set(
    results.testResults
      .filter((suite) => SCENARIOS_ON_ETCD.test(suite.testFilePath) === isOnEtcd)
      .flatMap((suite) => suite.testResults)
      .filter((test) => test.status === 'passed')
      .flatMap((test) => [test.title, test.fullName]),
  );
}

/** @implements {Pick<import('@jest/reporters').Reporter, 'onRunComplete' | 'getLastError'>} */
export default class SummaryLineReporter {
  /** @type {string | undefined} */
  #summary;
  /** @type {Error | undefined} */
  #error;

  /** @param {import('@jest/reporters').Config.GlobalConfig} config */
  constructor(config) {
    this.config = config;
    // Jest adds its own summary after every custom reporter; only at exit nothing more can follow.
    process.once('exit', () => {
      if (this.#summary !== undefined) process.stdout.write(`${this.#summary}\n`);
    });
  }

  /**
   * @param {Set<import('@jest/reporters').TestContext>} contexts
   * @param {import('@jest/reporters').AggregatedResult} results
   */
  onRunComplete(contexts, results) {
    this.#summary = summaryOf(results);
    const file = path.join(this.config.rootDir, SCENARIOS);
    if (!isFullRun(this.config) || !existsSync(file)) return;
    const isSoak = [...contexts].some(({ config }) => config.testMatch.includes(SOAK_TESTS));
    const markdown = readFileSync(file, 'utf8');
    const problems = [
      ...(isSoak ? [] : brokenPromises(markdown, passedIn(results, false))),
      ...brokenOnEtcd(markdown, passedIn(results, true), !isSoak),
    ];
    if (problems.length === 0) return;
    const text = problems.map((problem) => `${SCENARIOS}: ${problem}`).join('\n');
    process.stdout.write(`\n${text}\n`);
    this.#error = new Error(text);
  }

  /** @returns {Error | undefined} */
  getLastError() {
    return this.#error;
  }
}
