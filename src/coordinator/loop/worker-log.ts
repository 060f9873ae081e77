/** The worker's voice: log lines and inspection, neither of which may harm the worker when its receiver fails. */
import { errorOf, messageOf } from '../../base/errors.ts';
import type { Logger, LogLine } from '../../base/logger.ts';
import type { LogEventAt, LogLevel } from '../api/log-events.ts';
import type { Transition } from '../api/transition.ts';
import { callOut } from './call-out.ts';

type Fields = Parameters<LogLine>[0];

/** Logs one line; the first argument is its stable name, one of those that LOG_EVENTS has for the level. */
type Say<Level extends LogLevel> = (
  event: LogEventAt<Level>,
  message: string,
  fields?: Fields,
) => void;

/** A log whose lines carry the worker's name. */
export type WorkerLog = { readonly [Level in LogLevel]: Say<Level> };

/** Lines that carry the worker's name. A logger that throws is not asked to say so. */
export function workerLog(logger: Logger, name: { job: string; instanceId: string }): WorkerLog {
  const line =
    (level: LogLevel) =>
    (event: string, message: string, fields: Fields = {}): void => {
      // Coordination goes on without its log.
      callOut(
        () => logger[level]({ event, ...name, ...fields }, message),
        () => undefined,
      );
    };
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}

/** An inspector watches; what it throws is reported once and changes nothing. */
export function guardedInspector(
  inspect: ((transition: Transition) => void) | undefined,
  log: WorkerLog,
): (transition: Transition) => void {
  let hasThrown = false;
  return (transition) => {
    const threw = (error: unknown): void => {
      if (!hasThrown) {
        log.error('inspector.threw', 'the inspector threw; this is reported once', {
          reason: messageOf(error),
          err: errorOf(error),
        });
      }
      hasThrown = true;
    };
    callOut(() => inspect?.(transition), threw);
  };
}
