/**
 * Jest environment of the test files that run scenarios on etcd: of the tests they import, those that test/SCENARIOS.md
 * wants on both stores, at the same time, because they do little but wait. With the pragma `@handful` the first of each
 * heading.
 *
 * Plain JavaScript, because Jest loads environments without a transform.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import PatientEnvironment from '../../support/environment.js';
import { titlesOnEtcd } from '../../support/reporter.js';

const SCENARIOS = path.resolve(import.meta.dirname, '../../SCENARIOS.md');
/** As many as still leave each the time it needs on a busy machine of two cores. */
const AT_ONCE = { handful: 4, all: 10 };
const TIMEOUT_MS = 180_000;

/** @typedef {import('../../support/scenario.ts').Scenario} Scenario */

export default class ScenarioEnvironment extends PatientEnvironment {
  /** @type {AsyncLocalStorage<Scenario>} */
  #running = new AsyncLocalStorage();

  #isHandful = false;

  /**
   * @param {ConstructorParameters<typeof PatientEnvironment>[0]} config
   * @param {ConstructorParameters<typeof PatientEnvironment>[1]} context
   */
  constructor(config, context) {
    super(config, context);
    this.#isHandful = 'handful' in context.docblockPragmas;
  }

  /** @override */
  async setup() {
    await super.setup();
    this.global.runningScenarios = this.#running;
  }

  /**
   * Once all tests are known.
   *
   * @param {{ name: string }} event
   * @param {any} state
   * @override
   */
  handleTestEvent(event, state) {
    super.handleTestEvent(event, state);
    if (event.name !== 'run_start') return;
    const wanted = new Set(titlesOnEtcd(readFileSync(SCENARIOS, 'utf8'), this.#isHandful));
    const root = state.rootDescribeBlock;
    const tests = testsBelow(root).filter((test) => namesOf(test).some((name) => wanted.has(name)));
    for (const test of tests) {
      const run = test.fn;
      test.fn = () => this.#runAlone(run);
      test.concurrent = true;
      test.timeout = TIMEOUT_MS;
    }
    // Only what lies directly in one block runs at the same time.
    root.children = tests;
    state.maxConcurrency = this.#isHandful ? AT_ONCE.handful : AT_ONCE.all;
  }

  /** @param {() => Promise<void>} run */
  async #runAlone(run) {
    /** @type {Scenario} */
    const scenario = { fleets: [] };
    await this.#running.run(scenario, async () => {
      try {
        await run();
      } finally {
        for (const fleet of scenario.fleets) await fleet.close();
      }
    });
  }
}

/**
 * @param {any} block
 * @returns {any[]}
 */
function testsBelow(block) {
  return block.children.flatMap((/** @type {any} */ child) =>
    child.type === 'test' ? [child] : testsBelow(child),
  );
}

/**
 * The title of a test, and its name with all that surrounds it before it.
 *
 * @param {any} test
 */
function namesOf(test) {
  const names = [test.name];
  for (let { parent } = test; parent.name !== 'ROOT_DESCRIBE_BLOCK'; { parent } = parent) {
    names.unshift(parent.name);
  }
  return [test.name, names.join(' ')];
}
