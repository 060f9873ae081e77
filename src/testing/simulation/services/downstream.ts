/** What handlers call outside: it is away for a while, for everybody, for half of the splits, or for the handlers of one host. */
import { hash32 } from '../../../base/hash.ts';
import type { ActOf } from '../scenario.ts';

type Away = ActOf<'downstream'> | ActOf<'sickHost'>;

export class Downstream {
  readonly #away = new Set<Away>();

  /** It is away, until called. */
  begin(away: Away): () => void {
    this.#away.add(away);
    return () => {
      this.#away.delete(away);
    };
  }

  /** True when a handler of a split on a host does not reach it. */
  isAwayFor(split: string, slot: number): boolean {
    for (const away of this.#away) {
      const isStruck =
        away.do === 'sickHost'
          ? away.worker === slot
          : away.of === 'all' || isOfUnreliableHalf(split);
      if (isStruck) return true;
    }
    return false;
  }
}

/** True for the splits that are struck when half of it is away: always the same. */
export function isOfUnreliableHalf(split: string): boolean {
  return hash32(0, split) % 2 === 1;
}
