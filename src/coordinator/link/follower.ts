/**
 * Follows what every worker follows: plan, leader, its own assignment, presences, leases, parked splits and operators'
 * wishes. A commit or a renewal writes none of them, so that a busy fleet costs its watchers nothing.
 */
import { KEY_PREFIXES } from '../../records/keys.ts';
import type { Range } from '../../store/port.ts';
import type { Core } from './core.ts';
import { RangeWatcher } from './range-watcher.ts';

export class Follower {
  readonly #core: Core;
  readonly #onReset: () => void;
  readonly #watchers: RangeWatcher[] = [];
  readonly #listed = new Set<RangeWatcher>();

  constructor(core: Core, onReset: () => void) {
    this.#core = core;
    this.#onReset = onReset;
  }

  /** True once everything has been read at least once. */
  get isFollowing(): boolean {
    return this.#watchers.length > 0 && this.#listed.size === this.#watchers.length;
  }

  /** Begins to follow; a second call changes nothing. */
  start(): void {
    if (this.#watchers.length > 0) return;
    const { keys, me } = this.#core;
    // One watch each: etcd would tell a watch of all three everything that lies between their keys, the leases too.
    for (const key of [keys.plan, keys.leader, keys.assignment(me)]) this.#watch({ keys: [key] });
    const { workers, leases, parked, control } = KEY_PREFIXES;
    for (const prefix of [workers, leases, parked, control]) {
      this.#watch({ prefix: keys.root + prefix });
    }
  }

  /** Reads everything again beside the running watches: the backstop for lost events. */
  relist(): void {
    for (const watcher of this.#watchers) watcher.relist();
  }

  /** The store is another one: everything is read anew (R8). */
  restart(): void {
    this.#listed.clear();
    for (const watcher of this.#watchers) watcher.start();
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.close();
  }

  #watch(range: Range): void {
    const { gate, clock, view, mailbox } = this.#core;
    const watcher: RangeWatcher = new RangeWatcher(range, gate, clock, {
      onListing: (entries, revision) => {
        view.list(range, entries, revision);
        this.#listed.add(watcher);
      },
      onChanges: (changes) => {
        for (const change of changes) view.apply(change);
      },
      onReset: this.#onReset,
    });
    this.#watchers.push(watcher);
    mailbox.connect(watcher.messages);
    watcher.start();
  }
}
