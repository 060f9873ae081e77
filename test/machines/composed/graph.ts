/** A graph of numbered states: pairs of numbers, and its strongly connected parts. */

/** Tarjan’s algorithm, without recursion. */
export function partsOf(
  count: number,
  edgesFrom: (index: number) => readonly [number, number],
  edges: Numbers,
): { parts: Int32Array; partCount: number } {
  const parts = new Int32Array(count).fill(-1);
  const order = new Int32Array(count).fill(-1);
  const low = new Int32Array(count);
  const stack: number[] = [];
  let orderCount = 0;
  let partCount = 0;
  for (let root = 0; root < count; root += 1) {
    if (order[root]! >= 0) continue;
    const visit: [index: number, edge: number, end: number][] = [];
    const enter = (index: number): void => {
      order[index] = orderCount;
      low[index] = orderCount;
      orderCount += 1;
      stack.push(index);
      visit.push([index, ...edgesFrom(index)]);
    };
    enter(root);
    for (let top = visit.at(-1); top !== undefined; top = visit.at(-1)) {
      const [index, edge, end] = top;
      if (edge < end) {
        top[1] = edge + 2;
        const to = edges.at(edge + 1);
        if (order[to]! < 0) enter(to);
        else if (parts[to]! < 0) low[index] = Math.min(low[index]!, order[to]!);
        continue;
      }
      visit.pop();
      const outer = visit.at(-1);
      if (outer !== undefined) low[outer[0]] = Math.min(low[outer[0]]!, low[index]!);
      if (low[index] !== order[index]) continue;
      for (let member = stack.pop()!; ; member = stack.pop()!) {
        parts[member] = partCount;
        if (member === index) break;
      }
      partCount += 1;
    }
  }
  return { parts, partCount };
}

/** Edges by where they lead to, as chained lists. */
export function backwards(
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
export class Numbers {
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
