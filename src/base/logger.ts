/** The logger that a host injects; pino fits as it is. Silent when absent. */

/** One line: fields first, then the message. `event` in the fields is a stable name. */
export type LogLine = (fields: Readonly<Record<string, unknown>>, message: string) => void;

/** The part of pino's interface that Leasehold uses. */
export interface Logger {
  debug: LogLine;
  info: LogLine;
  warn: LogLine;
  error: LogLine;
}

const silent: LogLine = () => undefined;

/** Says nothing. */
export const SILENT_LOGGER: Logger = { debug: silent, info: silent, warn: silent, error: silent };
