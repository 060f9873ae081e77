/**
 * The third pass of the balance decision: moves that lower the sum of squared loads, until no single move does.
 *
 * A move of weight w is admitted when load(from) > load(to) + w. It lowers the sum of squares by 2w(from - to - w) > 0,
 * so no sequence of moves comes back to where it was. Two walks, each over every split at most once:
 *
 * 1. `drainHeaviest` takes from the most loaded instance the split whose move gains most, gives it to the least loaded
 *    open one, and goes on. It keeps the moves few, because a move costs a drain, but it never looks at a split twice.
 * 2. `polish` visits all splits, heaviest first, and gives each to the least loaded open instance if that improves. One
 *    visit is enough. No admitted move lowers the least load among the open instances: the source, which may
 *    become open, keeps more than the target had. A split of weight w on an instance of load L stays put while
 *    L - w <= least. Later visits move weights w' <= w, and only onto an instance that is the least loaded one, so
 *    if it is this split's instance its load becomes at most least + w', and least + w' - w <= least. (On identical
 *    machines this is the n-step bound of Even-Dar, Kesselman and Mansour, 2007; full instances do not disturb it.)
 *
 * So no split moves more than twice here, and at most as many splits change hands as there are. Splits with barred
 * instances break the argument of `polish`; the caller repeats until nothing moves, which the sum of squares bounds.
 */
import { type Fleet, NOBODY } from './assign-fleet.ts';
import { LoadHeap } from './assign-loads.ts';

/** Splits and where they are, all by index of the split in ascending order of id. */
export interface Placement {
  readonly fleet: Fleet;
  readonly weights: Float64Array;
  /** The instance of each split; below zero when it is on none. */
  readonly places: Int32Array;
  /** Instances a split may not go to. Most splits have none and are absent. */
  readonly bars: ReadonlyMap<number, readonly number[]>;
  /** Indexes by descending weight, then ascending. */
  readonly heaviestFirst: () => Uint32Array;
}

/** Moves splits until no single move improves, barring those that bars stand in the way of. Returns the moves made. */
export function improve(placement: Placement): number {
  if (isSettled(placement)) return 0;
  return drainHeaviest(placement) + polish(placement);
}

/** The instance that should get a split next; `NOBODY` when none may. */
export function targetOf({ fleet, bars }: Placement, split: number): number {
  const barred = bars.size === 0 ? undefined : bars.get(split);
  return barred === undefined ? fleet.least : fleet.leastExcept(barred);
}

/** Whether no move improves, bars left aside. The lightest split of an instance is the first to move. */
function isSettled({ fleet, weights, places }: Placement): boolean {
  const { least } = fleet;
  if (least === NOBODY) return true;
  const lightest = new Float64Array(fleet.size).fill(Infinity);
  for (let split = 0; split < places.length; split += 1) {
    const place = places[split]!;
    if (place >= 0 && weights[split]! < lightest[place]!) lightest[place] = weights[split]!;
  }
  return lightest.every(
    (weight, place) =>
      weight === Infinity || fleet.isCordoned(place) || !fleet.loads.improves(place, least, weight),
  );
}

function move({ fleet, weights, places }: Placement, split: number, to: number): void {
  const weight = weights[split]!;
  fleet.lift(places[split]!, weight);
  fleet.place(to, weight);
  places[split] = to;
}

function polish(placement: Placement): number {
  const { fleet, weights, places } = placement;
  const { loads } = fleet;
  let moves = 0;
  for (const split of placement.heaviestFirst()) {
    const from = places[split]!;
    if (from < 0) continue;
    const to = targetOf(placement, split);
    if (to === NOBODY || !loads.improves(from, to, weights[split]!)) continue;
    if (fleet.isCordoned(from)) continue;
    move(placement, split, to);
    moves += 1;
  }
  return moves;
}

function drainHeaviest(placement: Placement): number {
  const { fleet } = placement;
  const sources = new LoadHeap(fleet.loads, fleet.size, 'most');
  const candidates = new Candidates(placement);
  const offer = (instance: number): void => {
    if (candidates.has(instance)) sources.put(instance);
    else sources.remove(instance);
  };
  for (let instance = 0; instance < fleet.size; instance += 1) offer(instance);
  let moves = 0;
  for (let from = sources.top; from !== NOBODY; from = sources.top) {
    const to = fleet.least;
    if (to === NOBODY || to === from) break;
    const split = candidates.take(from, to);
    if (split === undefined) {
      sources.remove(from);
      continue;
    }
    move(placement, split, to);
    moves += 1;
    offer(from);
    offer(to);
  }
  return moves;
}

/** The splits that `drainHeaviest` may still move: each instance's own, heaviest first, until they are taken. */
class Candidates {
  readonly #placement: Placement;
  /** Splits, grouped by instance. */
  readonly #splits: Uint32Array;
  readonly #weights: Float64Array;
  /** Where the group of each instance starts; one more entry ends the last. */
  readonly #starts: Uint32Array;
  /** Splits left in each group. */
  readonly #left: Uint32Array;
  /** For a position that is taken: one further on, or further back, from which to go on looking. */
  readonly #nexts: Int32Array;
  readonly #previous: Int32Array;

  constructor(placement: Placement) {
    const { fleet, places, weights, bars } = placement;
    const order = placement.heaviestFirst();
    const isCandidate = (split: number): boolean =>
      places[split]! >= 0 && !bars.has(split) && !fleet.isCordoned(places[split]!);
    const left = new Uint32Array(fleet.size);
    for (const split of order) if (isCandidate(split)) left[places[split]!]! += 1;
    const starts = new Uint32Array(fleet.size + 1);
    for (let index = 0; index < fleet.size; index += 1) {
      starts[index + 1] = starts[index]! + left[index]!;
    }
    const total = starts[fleet.size]!;
    this.#placement = placement;
    this.#splits = new Uint32Array(total);
    this.#weights = new Float64Array(total);
    this.#starts = starts;
    this.#left = left;
    this.#nexts = new Int32Array(total + 1);
    this.#previous = new Int32Array(total + 1);
    const ends = starts.slice();
    for (const split of order) {
      if (!isCandidate(split)) continue;
      const position = ends[places[split]!]!;
      ends[places[split]!] = position + 1;
      this.#splits[position] = split;
      this.#weights[position] = weights[split]!;
    }
    for (let position = 0; position <= total; position += 1) {
      this.#nexts[position] = position;
      this.#previous[position] = position;
    }
  }

  has(instance: number): boolean {
    return this.#left[instance]! > 0;
  }

  /** Takes the split of `from` whose move to `to` gains most; undefined when none improves. */
  take(from: number, to: number): number | undefined {
    const position = this.#best(from, this.#placement.fleet.loads.difference(from, to));
    if (position === NOBODY) return undefined;
    const { loads } = this.#placement.fleet;
    if (!loads.improves(from, to, this.#weights[position]!)) return undefined;
    this.#left[from]! -= 1;
    this.#nexts[position] = position + 1;
    this.#previous[position] = position - 1;
    return this.#splits[position]!;
  }

  /** The gain 2w(difference - w) is highest where w is nearest to half of the difference. */
  #best(from: number, difference: number): number {
    const start = this.#starts[from]!;
    const end = this.#starts[from + 1]!;
    const half = difference / 2;
    let low = start;
    let high = end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#weights[middle]! > half) low = middle + 1;
      else high = middle;
    }
    const lighter = follow(this.#nexts, low);
    const heavier = low === 0 ? NOBODY : follow(this.#previous, low - 1);
    if (heavier < start) return lighter < end ? lighter : NOBODY;
    if (lighter >= end) return heavier;
    return half - this.#weights[lighter]! <= this.#weights[heavier]! - half ? lighter : heavier;
  }
}

/** The first position from `position` on that is not taken. Halves the path it walks. */
function follow(jumps: Int32Array, position: number): number {
  let at = position;
  while (at >= 0 && jumps[at] !== at) {
    const next = jumps[at]!;
    if (next >= 0) jumps[at] = jumps[next]!;
    at = next;
  }
  return at;
}
