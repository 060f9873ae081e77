/** A store whose values are huge: large answers are refused, and those that come take their time. */
import type { Clock } from '../../base/clock.ts';
import type { Store } from '../../store/port.ts';

/** A store that a process reads from. */
export type Server = Store & { readonly clusterId: string };

/** How huge the values are. */
export interface Hugeness {
  /** A read of more entries is answered as too large. */
  readonly entriesMax: number;
  /** What each entry of an answer takes. */
  readonly entryMs: number;
}

/** The answers of one client. */
export interface HugeAnswers {
  readonly store: Server;
  /** How often an answer was too large, or late. */
  readonly struck: Readonly<Record<string, number>>;
  /** Values are huge until called; of several the newest says how. */
  swell(how: Hugeness): () => void;
  /** Values are as small as they are. */
  heal(): void;
}

/** The store as one client reads it. */
export function hugeAnswers(server: Server, clock: Clock): HugeAnswers {
  const struck: Record<string, number> = {};
  const swollen = new Set<Hugeness>();
  const strike = (kind: string): void => {
    struck[kind] = (struck[kind] ?? 0) + 1;
  };
  const read: Store['read'] = async (range, read, options) => {
    const answer = await server.read(range, read, options);
    const how = [...swollen].at(-1);
    if (how === undefined || answer.kind !== 'page' || read.keysOnly === true) return answer;
    const { length } = answer.entries;
    if (length > how.entriesMax) {
      strike('answer too large');
      return { kind: 'tooLarge' };
    }
    if (length * how.entryMs === 0) return answer;
    strike('answer slow');
    return new Promise((resolve) => {
      clock.setTimeout(() => resolve(answer), length * how.entryMs);
    });
  };
  return {
    store: {
      name: server.name,
      get clusterId() {
        return server.clusterId;
      },
      openSession: (...args) => server.openSession(...args),
      keepAlive: (...args) => server.keepAlive(...args),
      closeSession: (...args) => server.closeSession(...args),
      read,
      transact: (...args) => server.transact(...args),
      watch: (...args) => server.watch(...args),
      close: (...args) => server.close(...args),
    },
    struck,
    swell: (how) => {
      const one = { ...how };
      swollen.add(one);
      return () => void swollen.delete(one);
    },
    heal: () => swollen.clear(),
  };
}
