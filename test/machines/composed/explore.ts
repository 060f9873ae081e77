/**
 * Explores a world: every state that can be reached, breadth first, so that the first way found to anything is a shortest
 * one. Safety is asked of every state; liveness of the whole graph: wherever a fleet ends up by steps that are no failures,
 * all goals are reached, for good or again and again.
 */

import { backwards, Numbers, partsOf } from './graph.ts';

export interface Step<State> {
  /** Reads like a sentence: `a claims s`. */
  readonly label: string;
  /** Something goes wrong; nothing more of this kind happens once a goal is waited for. */
  readonly isFailure: boolean;
  /** Changes a copy of the state. */
  readonly act: (draft: State) => void;
}

export interface Goal<State> {
  readonly name: string;
  readonly isReached: (state: State) => boolean;
}

export interface World<State> {
  readonly name: string;
  readonly initial: State;
  readonly clone: (state: State) => State;
  /** Equal for two states from which the same can happen. */
  readonly keyOf: (state: State) => string;
  readonly stepsOf: (state: State) => readonly Step<State>[];
  /** What is broken here, or null. */
  readonly brokenIn: (state: State) => string | null;
  readonly goals: readonly Goal<State>[];
}

export interface Counterexample {
  readonly what: string;
  /** The labels of the steps that lead there. */
  readonly path: readonly string[];
  /** Those that lead to where it ends up, when that is where nothing more happens but the same. */
  readonly end: readonly string[] | null;
}

/** A counterexample as a sequence of steps. */
export function described({ what, path, end }: Counterexample): string {
  const last = end === null || end.length === path.length ? '' : `; at last: ${end.join(' > ')}`;
  return `${path.join(' > ')} > ${what}${last}`;
}

export interface Explored {
  readonly states: number;
  readonly transitions: number;
  /** The shortest way to a broken state, or to one from which a goal is out of reach; null when there is none. */
  readonly found: Counterexample | null;
}

/** Above any world that finishes in a test; one without bounds ends here. */
const STATES_MAX = 1_500_000;

/** Explores until everything is known, or something is broken. */
export function exploreWorld<State>(world: World<State>): Explored {
  return new Exploration(world).run();
}

class Exploration<State> {
  readonly #world: World<State>;
  readonly #known = new Map<string, number>();
  readonly #parents = new Numbers();
  readonly #labels: string[] = [];
  /** Pairs of states, of the steps that are no failures, by the first. */
  readonly #edges = new Numbers();
  /** Where in them each state’s begin. */
  readonly #starts = new Numbers();
  /** For each state the goals that hold in it, one bit each. */
  readonly #reached = new Numbers();
  #transitions = 0;

  constructor(world: World<State>) {
    this.#world = world;
  }

  run(): Explored {
    const { world, known } = { world: this.#world, known: this.#known };
    this.#add(world.keyOf(world.initial), world.initial, { parent: -1, label: '' });
    let layer: [number, State][] = [[0, world.initial]];
    while (layer.length > 0) {
      const next: [number, State][] = [];
      for (const [index, state] of layer) {
        this.#starts.push(this.#edges.size);
        for (const step of world.stepsOf(state)) {
          const draft = world.clone(state);
          step.act(draft);
          this.#transitions += 1;
          const key = world.keyOf(draft);
          let to = known.get(key);
          if (to === undefined) {
            to = this.#add(key, draft, { parent: index, label: step.label });
            next.push([to, draft]);
            const what = world.brokenIn(draft);
            if (what !== null) return this.#result({ what, path: this.#pathTo(to), end: null });
          }
          if (!step.isFailure && to !== index) this.#edges.push(index, to);
        }
      }
      layer = next;
    }
    return this.#result(this.#unreachable());
  }

  #add(key: string, state: State, from: { parent: number; label: string }): number {
    const index = this.#known.size;
    if (index >= STATES_MAX) throw new Error(`${this.#world.name}: more than ${STATES_MAX} states`);
    this.#known.set(key, index);
    this.#parents.push(from.parent);
    this.#labels.push(from.label);
    const { goals } = this.#world;
    this.#reached.push(goals.reduce((b, goal, i) => b | (goal.isReached(state) ? 1 << i : 0), 0));
    return index;
  }

  #result(found: Counterexample | null): Explored {
    return { states: this.#known.size, transitions: this.#transitions, found };
  }

  #pathTo(index: number): string[] {
    const path: string[] = [];
    for (let at = index; at > 0; at = this.#parents.at(at)) path.unshift(this.#labels[at]!);
    return path;
  }

  /** The nearest state from which nothing leads to where all goals are reached, for good or again and again. */
  #unreachable(): Counterexample | null {
    const { goals } = this.#world;
    const all = (1 << goals.length) - 1;
    const { parts, ends } = this.#ends();
    const goodEnds = new Set<number>();
    const reachedInEnd = new Map<number, number>();
    parts.forEach((part, index) => {
      if (!ends.has(part)) return;
      const reached = this.#reached.at(index);
      reachedInEnd.set(part, (reachedInEnd.get(part) ?? 0) | reached);
      if (reached === all) goodEnds.add(part);
    });
    const found = this.#stranded(parts, ends, goodEnds);
    if (found === null) return null;
    const bits = reachedInEnd.get(parts[found.end]!)!;
    const missing = goals.find((_, i) => (bits & (1 << i)) === 0);
    const what = missing === undefined ? 'never all at once' : `never again: ${missing.name}`;
    return { what, path: this.#pathTo(found.from), end: this.#pathTo(found.end) };
  }

  /**
   * The strongly connected parts of the graph of steps that are no failures, by Tarjan, and those that nothing leads out of:
   * where a fleet ends up once faults are over.
   */
  #ends(): { parts: Int32Array; ends: ReadonlySet<number> } {
    const count = this.#known.size;
    const { parts, partCount } = partsOf(count, (index) => this.#edgesFrom(index), this.#edges);
    const ends = new Set(Array.from({ length: partCount }, (_, part) => part));
    for (let edge = 0; edge < this.#edges.size; edge += 2) {
      const from = parts[this.#edges.at(edge)]!;
      if (from !== parts[this.#edges.at(edge + 1)]) ends.delete(from);
    }
    return { parts, ends };
  }

  /** Where the edges of a state begin and end: they were found state by state. */
  #edgesFrom(index: number): readonly [number, number] {
    const next = index + 1 < this.#starts.size ? this.#starts.at(index + 1) : this.#edges.size;
    return [this.#starts.at(index), next];
  }

  /** A state of some end that a state leads to. */
  #endAfter(from: number, parts: Int32Array, ends: ReadonlySet<number>): number {
    const seen = new Set([from]);
    for (const index of seen) {
      if (ends.has(parts[index]!)) return index;
      const [first, end] = this.#edgesFrom(index);
      for (let edge = first; edge < end; edge += 2) seen.add(this.#edges.at(edge + 1));
    }
    return from;
  }

  /**
   * The nearest state from which a bad end can be reached and no good one, and a state of that end. States are numbered in
   * the order of their distance.
   */
  #stranded(
    parts: Int32Array,
    ends: ReadonlySet<number>,
    goodEnds: ReadonlySet<number>,
  ): { from: number; end: number } | null {
    const count = parts.length;
    const { heads, nexts, froms } = backwards(this.#edges, count);
    const spread = (queue: number[]): Uint8Array => {
      const reaches = new Uint8Array(count);
      for (const index of queue) reaches[index] = 1;
      for (let to = queue.pop(); to !== undefined; to = queue.pop()) {
        for (let edge = heads[to]!; edge >= 0; edge = nexts[edge]!) {
          const from = froms[edge]!;
          if (reaches[from] === 1) continue;
          reaches[from] = 1;
          queue.push(from);
        }
      }
      return reaches;
    };
    const indexes = Array.from(parts.keys());
    const reachesGood = spread(indexes.filter((index) => goodEnds.has(parts[index]!)));
    const from = reachesGood.indexOf(0);
    if (from < 0) return null;
    return { from, end: this.#endAfter(from, parts, ends) };
  }
}

/** The state after steps that are named by their labels, for worlds that begin in the middle of things. */
export function after<State>(world: World<State>, labels: readonly string[]): State {
  let state = world.initial;
  for (const label of labels) {
    const steps = world.stepsOf(state);
    const step = steps.find((one) => one.label === label);
    if (step === undefined) {
      throw new Error(`no step ${label}; there are: ${steps.map((one) => one.label).join('; ')}`);
    }
    state = world.clone(state);
    step.act(state);
  }
  return state;
}
