/** Which splits of a scenario do no wrong by themselves. */
import type { Innocents } from '../checks/process-checks.ts';
import { isOfUnreliableHalf } from './services/downstream.ts';
import type { Misdeed, Scenario, ScenarioSplit } from './scenario.ts';

const FAILURES: ReadonlySet<Misdeed['do']> = new Set([
  'throw',
  'return',
  'fallBack',
  'outOfOrder',
  'failAndLinger',
]);
const DEATHS: ReadonlySet<Misdeed['do']> = new Set(['kill', 'block', 'deaf']);

/** Splits that only ever fail when all do, and those that never cost a process its life. */
export function innocentsOf({ splits, acts, config }: Scenario): Innocents {
  // What half of them share is, among few, no more than a fault of those few.
  const isHalfStruck = acts.some((act) => act.do === 'downstream' && act.of === 'half');
  // With a single attempt the first failure of a shared outage may be one too many: others progressed just before it.
  const isStrict = config.maxAttempts === 1 || config.retry?.maxAttempts === 1;
  const failsAlone = ({ id, poison, misdeeds }: ScenarioSplit): boolean =>
    isStrict ||
    poison !== 'none' ||
    misdeeds.some((one) => FAILURES.has(one.do)) ||
    (isHalfStruck && isOfUnreliableHalf(id));
  const kills = ({ poison, misdeeds }: ScenarioSplit): boolean =>
    poison === 'kills' || poison === 'killsLater' || misdeeds.some((one) => DEATHS.has(one.do));
  return {
    ofFailures: new Set(splits.filter((split) => !failsAlone(split)).map(({ id }) => id)),
    ofDeaths: new Set(splits.filter((split) => !kills(split)).map(({ id }) => id)),
  };
}
