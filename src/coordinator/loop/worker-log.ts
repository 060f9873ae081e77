/** The worker's voice: log lines and inspection, neither of which may harm the worker when its receiver fails. */
import { messageOf } from '../../base/errors.ts';
import type { Logger, LogLine } from '../../base/logger.ts';
import type { Transition } from '../api/transition.ts';

/** A log whose lines carry the worker's name; the first argument is the stable event name. */
export interface WorkerLog {
  debug(event: string, message: string, fields?: Parameters<LogLine>[0]): void;
  info(event: string, message: string, fields?: Parameters<LogLine>[0]): void;
  warn(event: string, message: string, fields?: Parameters<LogLine>[0]): void;
  error(event: string, message: string, fields?: Parameters<LogLine>[0]): void;
}

/** Lines that carry the worker's name. A logger that throws is not asked to say so. */
export function workerLog(logger: Logger, name: { job: string; instanceId: string }): WorkerLog {
  const line =
    (level: keyof Logger) =>
    (event: string, message: string, fields: Readonly<Record<string, unknown>> = {}): void => {
      try {
        logger[level]({ event, ...name, ...fields }, message);
      } catch {
        // Coordination goes on without its log.
      }
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
    try {
      inspect?.(transition);
    } catch (error) {
      if (!hasThrown) {
        log.error('inspector.threw', 'the inspector threw; this is reported once', {
          reason: messageOf(error),
        });
      }
      hasThrown = true;
    }
  };
}
