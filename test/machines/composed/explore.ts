/**
 * Explores a world: every state that can be reached, breadth first, so that the first way found to anything is a shortest
 * one. Safety is asked of every state; liveness of the whole graph: from everywhere a goal can be reached by steps that
 * are no failures.
 */

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
  /** Pairs of states, of the steps that are no failures. */
  readonly #edges = new Numbers();
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
            if (what !== null) return this.#result({ what, path: this.#pathTo(to) });
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

  /** The nearest state from which a goal is out of reach. */
  #unreachable(): Counterexample | null {
    const { goals } = this.#world;
    const bits = this.#spreadBack();
    const all = (1 << goals.length) - 1;
    const index = bits.findIndex((reached) => reached !== all);
    if (index < 0) return null;
    const goal = goals.find((_, i) => (bits[index]! & (1 << i)) === 0)!;
    return { what: `never again: ${goal.name}`, path: this.#pathTo(index) };
  }

  /** For each state the goals that can be reached from it. States are numbered in the order of their distance. */
  #spreadBack(): Int32Array {
    const count = this.#known.size;
    const bits = Int32Array.from({ length: count }, (_, index) => this.#reached.at(index));
    const { heads, nexts, froms } = backwards(this.#edges, count);
    const queue = Array.from(bits.keys()).filter((index) => bits[index] !== 0);
    for (let to = queue.pop(); to !== undefined; to = queue.pop()) {
      for (let edge = heads[to]!; edge >= 0; edge = nexts[edge]!) {
        const from = froms[edge]!;
        const more = bits[from]! | bits[to]!;
        if (more === bits[from]) continue;
        bits[from] = more;
        queue.push(from);
      }
    }
    return bits;
  }
}

/** Edges by where they lead to, as chained lists. */
function backwards(
  edges: Numbers,
  count: number,
): { heads: Int32Array; nexts: Int32Array; froms: Int32Array } {
  const heads = new Int32Array(count).fill(-1);
  const nexts = new Int32Array(edges.size / 2);
  const froms = new Int32Array(edges.size / 2);
  for (let edge = 0; edge < nexts.length; edge += 1) {
    const to = edges.at(2 * edge + 1);
    froms[edge] = edges.at(2 * edge);
    nexts[edge] = heads[to]!;
    heads[to] = edge;
  }
  return { heads, nexts, froms };
}

/** A growing list of whole numbers. */
class Numbers {
  #items = new Int32Array(1024);
  size = 0;

  push(...values: number[]): void {
    for (const value of values) {
      if (this.size === this.#items.length) {
        const items = new Int32Array(this.size * 2);
        items.set(this.#items);
        this.#items = items;
      }
      this.#items[this.size] = value;
      this.size += 1;
    }
  }

  at(index: number): number {
    return this.#items[index]!;
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
