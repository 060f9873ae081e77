/**
 * The balance decision written down a second time, slowly: linear scans, BigInt sums, no heaps, no radix sort. Whatever
 * the fast one does must come out the same. Weights here add up to less than 2^53.
 */
import { hash32 } from '../../src/base/hash.ts';
import type { AssignInput } from '../../src/protocol/assign.ts';
import { exact } from './balance.ts';

interface Piece {
  readonly id: string;
  readonly weight: bigint;
  readonly owner: string | null;
  readonly barred: readonly string[];
  place: string | null;
}

interface Member {
  readonly id: string;
  readonly slots: number;
  readonly cordoned: boolean;
  readonly tie: readonly [number, string];
}

/** The result, in the form of `plain`. */
export function slowAssign(input: AssignInput): {
  byInstance: [string, string[]][];
  unassigned: string[];
} {
  const fleet = new SlowFleet(input);
  fleet.stick();
  for (;;) {
    const moves = fleet.relocate() + fleet.fill() + fleet.drain() + fleet.polish();
    if (moves === 0) break;
  }
  const ids = input.splits.map(({ id }) => id).sort();
  const listOf = (place: string | null): string[] =>
    ids.filter((id) => (fleet.pieces.find((piece) => piece.id === id)?.place ?? null) === place);
  return {
    byInstance: input.instances
      .map(({ id }) => id)
      .sort()
      .map((id) => [id, listOf(id)]),
    unassigned: listOf(null),
  };
}

class SlowFleet {
  /** Heaviest first, then by id. */
  readonly pieces: Piece[];
  readonly #members: Member[];

  constructor(input: AssignInput) {
    this.#members = input.instances.map(({ id, maxInFlight, cordoned }) => ({
      id,
      slots: maxInFlight,
      cordoned,
      tie: [hash32(input.seed, id), id],
    }));
    this.pieces = input.splits
      .filter(({ id }) => !input.withheld.has(id))
      .map(({ id, weight, owner, barred }) => ({
        id,
        weight: exact(weight),
        owner,
        barred: barred ?? [],
        place: null,
      }));
    this.pieces.sort((a, b) =>
      a.weight === b.weight ? (a.id < b.id ? -1 : 1) : a.weight > b.weight ? -1 : 1,
    );
  }

  stick(): void {
    const refuses = ({ owner, barred }: Piece): boolean => owner !== null && barred.includes(owner);
    for (const wanted of [false, true]) {
      for (const piece of this.pieces) {
        if (refuses(piece) !== wanted) continue;
        const member = this.#members.find(({ id }) => id === piece.owner);
        if (member !== undefined && this.#count(member) < member.slots) piece.place = member.id;
      }
    }
  }

  relocate(): number {
    let moves = 0;
    for (const piece of this.pieces) {
      if (piece.place === null || !piece.barred.includes(piece.place)) continue;
      const to = this.#least(piece);
      if (to === undefined) continue;
      piece.place = to.id;
      moves += 1;
    }
    return moves;
  }

  fill(): number {
    let moves = 0;
    for (const piece of this.pieces) {
      if (piece.place !== null) continue;
      const to = this.#least(piece);
      if (to === undefined) continue;
      piece.place = to.id;
      moves += 1;
    }
    return moves;
  }

  drain(): number {
    const left = this.pieces.filter(
      ({ place, barred }) =>
        !barred.some((id) => this.#members.some((member) => member.id === id)) &&
        this.#members.some(({ id, cordoned }) => id === place && !cordoned),
    );
    const sources = new Set(this.#members.filter(({ id }) => left.some((p) => p.place === id)));
    let moves = 0;
    while (sources.size > 0) {
      const from = [...sources].sort((a, b) => this.#compare(b, a))[0]!;
      const to = this.#least();
      if (to === undefined || to === from) break;
      const piece = this.#nearestHalf(
        left.filter(({ place }) => place === from.id),
        this.#load(from) - this.#load(to),
      );
      if (piece === undefined || !this.#improves(piece, to)) {
        sources.delete(from);
        continue;
      }
      left.splice(left.indexOf(piece), 1);
      piece.place = to.id;
      moves += 1;
      // A source whose splits are all taken is none; one that got something may have become one again.
      for (const member of [from, to]) {
        if (left.some(({ place }) => place === member.id)) sources.add(member);
        else sources.delete(member);
      }
    }
    return moves;
  }

  polish(): number {
    let moves = 0;
    for (const piece of this.pieces) {
      const from = this.#members.find(({ id }) => id === piece.place);
      if (from === undefined || from.cordoned) continue;
      const to = this.#least(piece);
      if (to === undefined || !this.#improves(piece, to)) continue;
      piece.place = to.id;
      moves += 1;
    }
    return moves;
  }

  #nearestHalf(own: readonly Piece[], difference: bigint): Piece | undefined {
    const lighter = own.find(({ weight }) => 2n * weight <= difference);
    const heavier = own.findLast(({ weight }) => 2n * weight > difference);
    if (lighter === undefined || heavier === undefined) return lighter ?? heavier;
    const isNearer = difference - 2n * lighter.weight <= 2n * heavier.weight - difference;
    return isNearer ? lighter : heavier;
  }

  #improves(piece: Piece, to: Member): boolean {
    const from = this.#members.find(({ id }) => id === piece.place)!;
    return this.#load(from) > this.#load(to) + piece.weight;
  }

  #least(piece?: Piece): Member | undefined {
    return this.#members
      .filter(
        (member) =>
          !member.cordoned &&
          this.#count(member) < member.slots &&
          piece?.barred.includes(member.id) !== true,
      )
      .sort((a, b) => this.#compare(a, b))[0];
  }

  #compare(a: Member, b: Member): number {
    const difference = this.#load(a) - this.#load(b);
    if (difference !== 0n) return difference < 0n ? -1 : 1;
    return a.tie[0] - b.tie[0] || (a.tie[1] < b.tie[1] ? -1 : 1);
  }

  #load(member: Member): bigint {
    return this.pieces
      .filter(({ place }) => place === member.id)
      .reduce((sum, { weight }) => sum + weight, 0n);
  }

  #count(member: Member): number {
    return this.pieces.filter(({ place }) => place === member.id).length;
  }
}
