/** How events reach whoever embeds a worker. */
import type { CoordinationEvent } from './api.ts';

/** May be async; what it throws or rejects with is logged and counted. */
export type EventListener = (event: CoordinationEvent) => unknown;

/**
 * An endless, single-reader stream of events; ends with the worker.
 *
 * What nobody reads is bounded: of informational events 1,000 are kept. Of ownership events, once 1,000 are waiting, what later ones have
 * overtaken goes: tenancies that are over, and requests that were withdrawn. A `gained` ends whatever was told of its split before. Beyond
 * 16,384 the oldest go, which only a reader meets that has stood still for as many tenancies.
 */
export interface EventStream extends AsyncIterableIterator<CoordinationEvent> {
  /** Events that were dropped because nobody read. */
  readonly dropped: number;
}
