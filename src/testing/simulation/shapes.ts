/** Chance in the shapes that scenarios are drawn with. */
import { type Random, randomInteger } from '../../base/random.ts';

export class Draw {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  /** In [0, 1). */
  unit(): number {
    return this.#random.next();
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability;
  }

  /** A whole number from `least` to `most`, both included. */
  whole(least: number, most: number): number {
    return Math.floor(least + this.#random.next() * (Math.floor(most) - least + 1));
  }

  pick<T>(choices: readonly T[]): T {
    return choices[randomInteger(this.#random, choices.length)]!;
  }

  times<T>(count: number, make: (index: number) => T): T[] {
    return Array.from({ length: count }, (_, index) => make(index));
  }

  some<T>(least: number, most: number, make: (index: number) => T): T[] {
    return this.times(this.whole(least, most), make);
  }

  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const entries = Object.entries(weights) as [Name, number][];
    const sum = entries.reduce((total, [, weight]) => total + weight, 0);
    let left = this.#random.next() * sum;
    for (const [name, weight] of entries) {
      left -= weight;
      if (left < 0) return name;
    }
    return entries.at(-1)![0];
  }
}
