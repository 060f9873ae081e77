/**
 * Reads keys again on which this worker waits: each third of a lease, so that a lost event costs no more than that, and a
 * worker which nobody lets read hears of it whatever it is doing (R24, R46).
 */
import { isLeaseholdError } from '../../base/errors.ts';
import type { Key } from '../../store/port.ts';
import type { Core } from './core.ts';

/** Compares what is known of some keys with what is there, and takes in what differs. What fails is made up for next time. */
export function lookAgain(core: Core, keys: readonly Key[]): void {
  if (keys.length === 0) return;
  const { gate, mailbox, view } = core;
  const failed = (error: unknown): void => {
    if (!isLeaseholdError(error)) core.bug(error);
  };
  gate.readKeys(keys, { keysOnly: true }).then(({ entries, revision }) => {
    mailbox.post(() => {
      const news: Key[] = [];
      for (const key of keys) {
        const entry = entries.get(key);
        if (entry === undefined) {
          if (view.entry(key) !== null) view.apply({ key, modRevision: revision, entry: null });
        } else if (view.known.isNews(entry)) news.push(key);
      }
      if (news.length > 0) takeIn(core, news, failed);
    });
  }, failed);
}

function takeIn(core: Core, keys: readonly Key[], failed: (error: unknown) => void): void {
  core.gate.readKeys(keys).then(({ entries }) => {
    core.mailbox.post(() => {
      for (const entry of entries.values()) {
        core.view.apply({ key: entry.key, modRevision: entry.modRevision, entry });
      }
    });
  }, failed);
}
