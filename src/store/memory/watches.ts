/**
 * Brings commits to watchers: each watcher gets the changes of its range in order, one event a revision.
 *
 * Deliveries wait in one queue that a microtask empties, so a watcher never runs inside the call of a writer, and all
 * watchers together see the commits in the order they were made.
 */
import type { Subscriber } from 'rxjs';
import type { Change, Key, Range, WatchEvent } from '../port.ts';
import type { Commit } from './history.ts';

/** All watchers of one range; they share event objects. */
interface Topic {
  readonly id: string;
  readonly range: Range;
  readonly watchers: Set<Watcher>;
}

interface Watcher {
  readonly subscriber: Subscriber<WatchEvent>;
}

/** A commit costs one look-up per changed key and distinct prefix length, plus one delivery per watcher it concerns. */
export class Watches {
  readonly #topics = new Map<string, Topic>();
  readonly #byPrefix = new Map<string, Topic>();
  readonly #byKey = new Map<Key, Set<Topic>>();
  /** How many topics have a prefix of this length. */
  readonly #prefixLengths = new Map<number, number>();
  #queue: { watcher: Watcher; topic: Topic; event: WatchEvent }[] = [];
  #openCount = 0;
  #deliveredCount = 0;

  /** Watches now open. */
  get openCount(): number {
    return this.#openCount;
  }

  /** Events handed to watchers so far. */
  get deliveredCount(): number {
    return this.#deliveredCount;
  }

  /**
   * Starts a watch: first `backlog`, then whatever is published from now on.
   *
   * @returns Ends the watch at once; what is queued for it is dropped.
   */
  open(
    range: Range,
    subscriber: Subscriber<WatchEvent>,
    backlog: Iterable<WatchEvent>,
  ): () => void {
    const topic = this.#topicOf(range);
    const watcher: Watcher = { subscriber };
    topic.watchers.add(watcher);
    this.#openCount += 1;
    for (const event of backlog) this.#enqueue(topic, watcher, event);
    return () => this.#close(topic, watcher);
  }

  /** Queues a commit for all watchers of its keys. */
  publish(commit: Commit): void {
    const hits = new Map<Topic, Change[]>();
    const hit = (topic: Topic | undefined, change: Change): void => {
      if (topic === undefined) return;
      const changes = hits.get(topic);
      if (changes === undefined) hits.set(topic, [change]);
      else changes.push(change);
    };
    for (const change of commit.changes) {
      for (const length of this.#prefixLengths.keys()) {
        if (length > change.key.length) continue;
        hit(this.#byPrefix.get(change.key.slice(0, length)), change);
      }
      for (const topic of this.#byKey.get(change.key) ?? []) hit(topic, change);
    }
    for (const [topic, changes] of hits) {
      const event: WatchEvent = { kind: 'changes', revision: commit.revision, changes };
      for (const watcher of topic.watchers) this.#enqueue(topic, watcher, event);
    }
  }

  /** Ends all watches with `event`, after what is queued for them. */
  endAll(event: WatchEvent): void {
    for (const topic of this.#topics.values()) {
      for (const watcher of topic.watchers) this.#enqueue(topic, watcher, event);
    }
  }

  /** Ends all watches without a word. */
  silence(): void {
    for (const topic of [...this.#topics.values()]) {
      for (const watcher of topic.watchers) this.#close(topic, watcher);
    }
  }

  #enqueue(topic: Topic, watcher: Watcher, event: WatchEvent): void {
    if (this.#queue.length === 0) queueMicrotask(() => this.#deliver());
    this.#queue.push({ watcher, topic, event });
  }

  #deliver(): void {
    const queue = this.#queue;
    // The queue grows while it is emptied: what a watcher writes is delivered after what was written before it.
    for (let index = 0; index < queue.length; index += 1) {
      const { watcher, topic, event } = queue[index]!;
      if (!topic.watchers.has(watcher)) continue;
      this.#deliveredCount += 1;
      watcher.subscriber.next(event);
      if (event.kind === 'changes') continue;
      this.#close(topic, watcher);
      watcher.subscriber.complete();
    }
    this.#queue = [];
  }

  #topicOf(range: Range): Topic {
    const id =
      'prefix' in range ? `p${range.prefix}` : `k${[...new Set(range.keys)].sort().join('\0')}`;
    const known = this.#topics.get(id);
    if (known !== undefined) return known;
    const topic: Topic = { id, range, watchers: new Set() };
    this.#topics.set(id, topic);
    if ('prefix' in range) {
      const { length } = range.prefix;
      this.#byPrefix.set(range.prefix, topic);
      this.#prefixLengths.set(length, (this.#prefixLengths.get(length) ?? 0) + 1);
    } else {
      for (const key of range.keys) {
        const topics = this.#byKey.get(key);
        if (topics === undefined) this.#byKey.set(key, new Set([topic]));
        else topics.add(topic);
      }
    }
    return topic;
  }

  #close(topic: Topic, watcher: Watcher): void {
    if (!topic.watchers.delete(watcher)) return;
    this.#openCount -= 1;
    if (topic.watchers.size > 0) return;
    this.#topics.delete(topic.id);
    if ('prefix' in topic.range) {
      const { length } = topic.range.prefix;
      const left = (this.#prefixLengths.get(length) ?? 1) - 1;
      this.#byPrefix.delete(topic.range.prefix);
      if (left === 0) this.#prefixLengths.delete(length);
      else this.#prefixLengths.set(length, left);
    } else {
      for (const key of topic.range.keys) {
        const topics = this.#byKey.get(key);
        topics?.delete(topic);
        if (topics?.size === 0) this.#byKey.delete(key);
      }
    }
  }
}
