/**
 * One way to read for all who need an answer to go on: again and again with growing pauses, until it is there or nobody wants
 * it any more. Which kind of error it was is the link's business (R46); only what is no error of a store is a bug.
 */
import { isLeaseholdError, LeaseholdError } from '../../base/errors.ts';
import { readPauseMs } from '../../protocol/timing.ts';
import type { Loop } from './core.ts';

export interface Reading<T> {
  /** Asks the store once. */
  readonly read: () => Promise<T>;
  /** Takes the answer, as a message. */
  readonly take: (answer: T) => void;
  /** Whether anybody still waits for it; asked before each try and before the answer is taken. */
  readonly isWanted: () => boolean;
  /** Told, as a message, that nobody wants it any more. */
  readonly dropped?: () => void;
}

/** Reads until `take` has the answer, or it is no longer wanted. */
export function keepReading<T>(
  loop: Pick<Loop, 'mailbox' | 'after' | 'bug'>,
  reading: Reading<T>,
): void {
  attempt(loop, reading, 1);
}

function attempt<T>(
  loop: Pick<Loop, 'mailbox' | 'after' | 'bug'>,
  reading: Reading<T>,
  tries: number,
): void {
  const ifWanted = (act: () => void): void => {
    if (reading.isWanted()) act();
    else reading.dropped?.();
  };
  reading.read().then(
    (answer) => {
      loop.mailbox.post(() => {
        ifWanted(() => {
          reading.take(answer);
        });
      });
    },
    (error: unknown) => {
      if (!isLeaseholdError(error)) {
        loop.bug(error);
        return;
      }
      loop.mailbox.post(() => {
        ifWanted(() => {
          loop.after(readPauseMs(tries), () => {
            ifWanted(() => {
              attempt(loop, reading, tries + 1);
            });
          });
        });
      });
    },
  );
}

/** Reads until there is an answer; rejects with `E_STOPPED` once it is no longer wanted. */
export function readUntilAnswered<T>(
  loop: Pick<Loop, 'mailbox' | 'after' | 'bug'>,
  reading: Omit<Reading<T>, 'take'>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    keepReading(loop, {
      ...reading,
      take: resolve,
      dropped: () => {
        reject(new LeaseholdError('E_STOPPED', 'the answer is no longer wanted'));
      },
    });
  });
}
