/**
 * Jest environment of every test file: the time limit of a test is taken times the patience that the machine asks for when the
 * test begins (patience.js), whether it is the usual one or its own.
 *
 * Plain JavaScript, because Jest loads environments without a transform. Tests: test/base/patience.test.ts.
 */
import { TestEnvironment } from 'jest-environment-node';
import { extendLimit } from './patience.js';

export default class PatientEnvironment extends TestEnvironment {
  /** The limit of what has none of its own. */
  #usualMs = 0;

  /**
   * @param {{ name: string, test?: any, hook?: any }} event
   * @param {any} state
   */
  handleTestEvent(event, state) {
    if (event.name === 'run_start') this.#usualMs = state.testTimeout;
    if (event.name === 'test_start') extendLimit(event.test, this.#usualMs);
    if (event.name === 'hook_start') extendLimit(event.hook, this.#usualMs);
  }
}
