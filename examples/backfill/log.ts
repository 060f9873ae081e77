/**
 * The log of the workers: lines of pino on standard error from the level on that `LOG_LEVEL` names. Silent unless it is set: what
 * the example does to its workers on purpose is in its report.
 */
import { destination, pino } from 'pino';

// At once, because a killed process flushes nothing.
export const log = pino(
  { level: process.env.LOG_LEVEL ?? 'silent' },
  destination({ fd: 2, sync: true }),
);
