/** Rules that several tables of options share. */
import { idProblem } from './ids.ts';
import { having, mustPass, type Rule } from './shape.ts';

/** What may name a job, an instance or a split (R43). */
export const AN_ID: Rule = mustPass('1 to 128 bytes of [A-Za-z0-9_-]', idProblem);

export const A_CLOCK: Rule = having(
  'a clock',
  ['nowMs', 'wallMs', 'setTimeout', 'clearTimeout'],
  () => 'leave it out for the clock of the host',
);

export const A_RANDOM: Rule = having(
  'a source of randomness',
  ['next'],
  () => 'leave it out for the randomness of the host',
);

export const A_LOGGER: Rule = having(
  'a logger',
  ['debug', 'info', 'warn', 'error'],
  () => 'one of pino fits as it is; leave it out to log nothing',
);
