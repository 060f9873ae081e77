/** How the splits ended that were held when the worker began to leave: each is in exactly one list of the report. */
import type { StopReport } from '../api/api.ts';

/** The lists of a report, by name. */
export type StopLists = Pick<
  StopReport,
  'released' | 'completed' | 'failed' | 'forced' | 'lost' | 'unsettled'
>;

export class StopListing {
  readonly #ends = new Map<string, keyof StopLists>();

  /** The first end counts: what follows it is no end of what was held. */
  note(split: string, list: keyof StopLists): void {
    if (!this.#ends.has(split)) this.#ends.set(split, list);
  }

  lists(): StopLists {
    const of = (list: keyof StopLists): readonly string[] =>
      [...this.#ends].flatMap(([split, end]) => (end === list ? [split] : [])).sort();
    return {
      released: of('released'),
      completed: of('completed'),
      failed: of('failed'),
      forced: of('forced'),
      lost: of('lost'),
      unsettled: of('unsettled'),
    };
  }
}

/** Where a tenancy stands that ended in this state; undefined when it held nothing. */
export function listOf(
  state: string,
  { wasEnding, hasSession }: { readonly wasEnding: boolean; readonly hasSession: boolean },
): keyof StopLists | undefined {
  switch (state) {
    case 'released':
      return 'released';
    case 'completed':
      return 'completed';
    case 'failed':
    case 'quarantined':
      return 'failed';
    case 'lostRevoked':
      return 'forced';
    case 'lostFenced':
    case 'lostStarved':
      // Its last write was on its way when the session went, or found no lease any more.
      return wasEnding && !hasSession ? 'unsettled' : 'lost';
    default:
      return undefined;
  }
}
