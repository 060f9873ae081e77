/**
 * What every worker follows: plan, leader, its own assignment, presences, leases, parked splits and operators' wishes. A
 * commit or a renewal writes none of them, so that a busy fleet costs its watchers nothing.
 */
import { KEY_PREFIXES } from '../../records/keys.ts';
import type { Range } from '../../store/port.ts';
import type { Core } from './core.ts';
import { FollowedRange, followEffects, type FollowMachine } from './followed-range.ts';

export class JobWatches {
  readonly #core: Core;
  readonly #onReset: () => void;
  readonly #machine: FollowMachine;
  readonly #ranges = new Map<string, FollowedRange>();
  /** Ranges that were known as a whole since the store was last found to be another one. */
  readonly #listed = new Set<string>();

  constructor(core: Core, onReset: () => void) {
    this.#core = core;
    this.#onReset = onReset;
    this.#machine = followEffects((name) => this.#ranges.get(name));
  }

  /** True once everything has been read at least once, while nothing is refused. */
  get isFollowing(): boolean {
    return this.#ranges.size > 0 && this.#listed.size >= this.#ranges.size && !this.#isRefused();
  }

  /** States by range, for status. */
  states(): { range: string; state: string }[] {
    return [...this.#ranges].map(([range, { state }]) => ({ range, state }));
  }

  /** Begins to follow; a second call changes nothing. */
  start(): void {
    if (this.#ranges.size > 0) return;
    const { keys, me } = this.#core;
    // One watch each: etcd would tell a watch of all three everything that lies between their keys, the leases too.
    for (const key of [keys.plan, keys.leader, keys.assignment(me)]) this.#follow({ keys: [key] });
    const { workers, leases, parked, control } = KEY_PREFIXES;
    for (const prefix of [workers, leases, parked, control]) {
      this.#follow({ prefix: keys.root + prefix });
    }
  }

  /** Verifies everything beside the running watches: the backstop for lost events. */
  check(): void {
    for (const range of this.#ranges.values()) range.check();
  }

  /** Each third of a lease: what is still refused is told again. */
  tick(): void {
    for (const range of this.#ranges.values()) range.tick();
  }

  /** The store is another one: everything is read anew (R8). */
  reset(): void {
    this.#listed.clear();
    for (const range of this.#ranges.values()) range.reset();
  }

  close(): void {
    for (const range of this.#ranges.values()) range.close();
  }

  #isRefused(): boolean {
    for (const range of this.#ranges.values()) if (range.isRefused) return true;
    return false;
  }

  #follow(range: Range): void {
    const key = 'prefix' in range ? range.prefix : range.keys[0]!;
    const name = key.slice(this.#core.keys.root.length);
    const followed = new FollowedRange(
      this.#core,
      { range, name },
      {
        listed: () => this.#listed.add(name),
        reset: this.#onReset,
      },
    );
    this.#ranges.set(name, followed);
    followed.begin(this.#machine);
  }
}
