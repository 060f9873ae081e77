/**
 * The balance decision: which instance should hold each split.
 *
 * Three passes: sticky (everyone keeps what it has, within its budget), fill (the rest, heaviest first, to whoever
 * carries least) and improve (moves that lower the sum of squared loads; see `assign-improve.ts`).
 * Properties: test/protocol/assign.property.test.ts. Speed: bench/assign.ts.
 */
import { InvariantViolation } from '../base/errors.ts';
import type { InstanceId, SplitId } from '../base/ids.ts';
import { type AssignableInstance, Fleet, NOBODY } from './assign-fleet.ts';
import { improve, type Placement, targetOf } from './assign-improve.ts';
import { heaviestFirst, inIdOrder } from './assign-order.ts';

export type { AssignableInstance } from './assign-fleet.ts';

/** A runnable split, to be placed. */
export interface AssignableSplit {
  readonly id: SplitId;
  /** Planner's unit: whole, at most 2^53-1; 0 counts as 1. */
  readonly weight: number;
  /** Whom it sticks to (`currentOwner`); null when nobody. An instance that takes no part counts as nobody. */
  readonly owner: InstanceId | null;
  /** Instances that cannot take it (R27). */
  readonly barred?: readonly InstanceId[];
}

/** What a leader decides from. */
export interface AssignInput {
  /** Live, non-parting instances, in any order. */
  readonly instances: readonly AssignableInstance[];
  /** Runnable splits, in any order. */
  readonly splits: readonly AssignableSplit[];
  /** Splits of a departed instance that wait for it (R26); they are given to nobody. */
  readonly withheld: ReadonlySet<SplitId>;
  /** Breaks ties. A property of the job: a leader's own would move splits at every failover. */
  readonly seed: number;
}

/** Who should hold what. */
export interface Assignment {
  /** Every instance, ascending by id, each with its splits ascending by id. */
  readonly byInstance: ReadonlyMap<InstanceId, readonly SplitId[]>;
  /** Splits in nobody's list, ascending by id: withheld, or without an instance that may take them. */
  readonly unassigned: readonly SplitId[];
}

/**
 * Decides which instance should hold each split.
 *
 * The result is a wish: a split changes hands when its record is rewritten under a higher epoch, never here. A late or
 * mistaken leader can unbalance the fleet but cannot make a second owner.
 *
 * An instance may get a split when it is not cordoned, not barred for it and has a free slot.
 *
 * Guarantees, with `load` the exact sum of an instance's weights:
 * - P1 The same members, splits, owners, bars and seed give the same result, in whatever order and on whatever host.
 * - P2 No split is given twice, and no instance gets more than `maxInFlight`.
 * - P3 Feeding the result back as `owner` returns it unchanged.
 * - P4 No single split of an instance that is not cordoned can move to one that may get it with
 *   `load(from) > load(to) + weight`.
 * - P5 A split that is not withheld stays unassigned only if no instance may get it.
 * - P6 A cordoned instance keeps what it has, within its budget, and gets nothing. A split stays with an instance that
 *   is barred for it only while no other may get it.
 *
 * Cost: O(n + m) when nothing is to be placed or moved and the splits come in ascending order of id, else
 * O(n + k log(n m)) for k moves of n splits on m instances, with at most n splits changing hands; each split with bars
 * adds O(m).
 *
 * @throws InvariantViolation when an id is listed twice or a weight is not a whole number of 0 to 2^53-1.
 *
 * Source: longest-processing-time list scheduling (Graham, 1969) for the fill.
 */
export function assign(input: AssignInput): Assignment {
  const board = new Board(input);
  board.stick();
  for (;;) {
    const moves = board.relocate() + board.fill() + board.improve();
    // With bars, each pass may open what another needs. Every round places one more split, takes one more off an
    // instance barred for it, or lowers the sum of squared loads, so the rounds end.
    if (moves === 0 || !board.hasBars) break;
  }
  return board.result();
}

/**
 * Whom a split sticks to: the instance the leader last published it to, while that one is live; else the owner of its
 * lease; else the owner by its record.
 *
 * What was published comes first: before a claim is visible, a decision by ownership alone would deal the split again.
 */
export function currentOwner(
  split: {
    readonly published: InstanceId | null;
    readonly leaseOwner: InstanceId | null;
    readonly recordOwner: InstanceId | null;
  },
  isLive: (instance: InstanceId) => boolean,
): InstanceId | null {
  const { published, leaseOwner, recordOwner } = split;
  if (published !== null && isLive(published)) return published;
  return leaseOwner ?? recordOwner;
}

/** The place of a split that is kept from everyone. */
const WITHHELD = -2;

/** Splits on their way to their places. Splits and instances are named by their index in ascending order of id. */
class Board implements Placement {
  readonly fleet: Fleet;
  readonly weights: Float64Array;
  readonly places: Int32Array;
  readonly bars = new Map<number, readonly number[]>();
  readonly #splits: readonly AssignableSplit[];
  readonly #withheld: ReadonlySet<SplitId>;
  #order: Uint32Array | undefined;
  #unplacedCount = 0;
  /** Splits that are still on an instance barred for them. */
  #refused: number[] = [];

  constructor({ instances, splits, withheld, seed }: AssignInput) {
    this.fleet = new Fleet(instances, seed);
    this.weights = new Float64Array(splits.length);
    this.places = new Int32Array(splits.length);
    this.#splits = inIdOrder(splits);
    this.#withheld = withheld;
  }

  get hasBars(): boolean {
    return this.bars.size > 0;
  }

  heaviestFirst(): Uint32Array {
    this.#order ??= heaviestFirst(this.weights);
    return this.#order;
  }

  /** Pass 1: every split stays with its owner; over its budget, an instance keeps its heaviest. */
  stick(): void {
    const { fleet, weights, places } = this;
    const withheld = this.#withheld.size > 0 ? this.#withheld : undefined;
    for (let index = 0; index < this.#splits.length; index += 1) {
      const split = this.#splits[index]!;
      const weight = weightOf(split);
      weights[index] = weight;
      if (withheld?.has(split.id) === true) {
        places[index] = WITHHELD;
        continue;
      }
      const owner = split.owner === null ? NOBODY : fleet.indexOf(split.owner);
      places[index] = owner;
      if (split.barred !== undefined && this.#bar(index, split.barred)) continue;
      if (owner === NOBODY) this.#unplacedCount += 1;
      else fleet.preload(owner, weight);
    }
    this.#keepWithinBudgets();
    fleet.open();
  }

  /** Notes the instances barred for a split; true when its owner is among them. */
  #bar(split: number, barred: readonly InstanceId[]): boolean {
    const bars = barred.map((id) => this.fleet.indexOf(id)).filter((index) => index !== NOBODY);
    if (bars.length === 0) return false;
    this.bars.set(split, bars);
    if (!bars.includes(this.places[split]!)) return false;
    this.#refused.push(split);
    return true;
  }

  #keepWithinBudgets(): void {
    const { fleet, weights, places } = this;
    const isOver = fleet.ids.map((_, index) => fleet.isOverBudget(index));
    if (isOver.includes(true)) {
      const refused = new Set(this.#refused);
      isOver.forEach((over, index) => {
        if (over) fleet.unload(index);
      });
      for (const split of this.heaviestFirst()) {
        if (isOver[places[split]!] === true && !refused.has(split)) this.#keep(split);
      }
    }
    // What an instance refuses keeps its slot until it is placed elsewhere, but takes none from what it accepts.
    this.#refused.sort((a, b) => weights[b]! - weights[a]! || a - b);
    for (const split of this.#refused) this.#keep(split);
    this.#refused = this.#refused.filter((split) => places[split] !== NOBODY);
  }

  #keep(split: number): void {
    const place = this.places[split]!;
    if (this.fleet.hasFreeSlot(place)) {
      this.fleet.preload(place, this.weights[split]!);
    } else {
      this.places[split] = NOBODY;
      this.#unplacedCount += 1;
    }
  }

  /** Takes splits off instances that are barred for them, where another may get them. */
  relocate(): number {
    const { fleet, weights, places } = this;
    const before = this.#refused.length;
    this.#refused = this.#refused.filter((split) => {
      const from = places[split]!;
      // `improve` may have moved it.
      if (this.bars.get(split)?.includes(from) !== true) return false;
      const to = targetOf(this, split);
      if (to === NOBODY) return true;
      fleet.lift(from, weights[split]!);
      fleet.place(to, weights[split]!);
      places[split] = to;
      return false;
    });
    return before - this.#refused.length;
  }

  /** Pass 2: every split without a place goes to the least loaded instance that may get it, heaviest first. */
  fill(): number {
    if (this.#unplacedCount === 0 || this.fleet.least === NOBODY) return 0;
    const { fleet, weights, places } = this;
    let placed = 0;
    for (const split of this.heaviestFirst()) {
      if (places[split] !== NOBODY) continue;
      const to = targetOf(this, split);
      if (to === NOBODY) continue;
      fleet.place(to, weights[split]!);
      places[split] = to;
      placed += 1;
    }
    this.#unplacedCount -= placed;
    return placed;
  }

  /** Pass 3. */
  improve(): number {
    return improve(this);
  }

  result(): Assignment {
    const { fleet, places } = this;
    const lists = fleet.ids.map((_, index) => new Array<SplitId>(fleet.countOf(index)));
    const filled = new Uint32Array(fleet.size);
    const unassigned: SplitId[] = [];
    for (let index = 0; index < places.length; index += 1) {
      const { id } = this.#splits[index]!;
      const place = places[index]!;
      if (place < 0) {
        unassigned.push(id);
      } else {
        lists[place]![filled[place]!] = id;
        filled[place]! += 1;
      }
    }
    return {
      byInstance: new Map(fleet.ids.map((id, index) => [id, lists[index]!])),
      unassigned,
    };
  }
}

const WEIGHT_MAX = 2 ** 53 - 1;

function weightOf({ id, weight }: AssignableSplit): number {
  // From 2^52 on doubles are whole; below, adding 2^52 rounds a fraction away.
  const isWhole = weight >= 2 ** 52 || weight + 2 ** 52 - 2 ** 52 === weight;
  if (weight > 0 && weight <= WEIGHT_MAX && isWhole) return weight;
  if (weight === 0) return 1;
  throw new InvariantViolation(`${id} weighs ${weight}; weights are whole, 0 to 2^53-1 (R43)`);
}
