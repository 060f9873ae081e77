/** How events reach whoever embeds a worker. */
import type { CoordinationEvent } from './api.ts';

export type EventListener = (event: CoordinationEvent) => void;

/** An endless, single-reader stream of events; ends with the worker. */
export interface EventStream extends AsyncIterableIterator<CoordinationEvent> {
  /** Informational events that were dropped because nobody read. */
  readonly dropped: number;
}
