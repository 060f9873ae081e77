/** Ctrl-C and its like end the job in order: what was started is ended, what was made is removed. */
import type { Conditions } from './conditions.ts';
import { JobFailedError } from './job-failed-error.ts';

/** Exit codes by the custom of shells: 128 and the number of the signal. */
const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
type Heeded = keyof typeof EXIT_CODES;

/**
 * Fails what is waited for when a signal comes. More of them change nothing: a terminal and the starter of this program
 * may both send one, and what is left to do is bounded.
 */
export function failOnSignal(conditions: Conditions): { readonly ignore: () => void } {
  const fail = (signal: NodeJS.Signals): void => {
    const error = new JobFailedError(`ended by ${signal}`, EXIT_CODES[signal as Heeded]);
    conditions.fail(error);
  };
  const signals = Object.keys(EXIT_CODES) as Heeded[];
  for (const signal of signals) process.on(signal, fail);
  return {
    ignore: () => {
      for (const signal of signals) process.off(signal, fail);
    },
  };
}
