/**
 * The raw watch stream of a store, and its pulse: a stream that says nothing is asked for its progress each second, and
 * given up when two askings in a row are met by silence.
 *
 * Silence is counted in askings, not in time, so that a blocked event loop, which delays timer and answers alike, does not
 * look like a dead member. The answers prove life only: in etcd 3.4 they overtake events, so that no position may be taken
 * from them.
 */
import type { IWatchRequest, IWatchResponse } from 'etcd3';
import type { Clock, Timer } from '../../base/clock.ts';
import { compareDecimals, type Revision } from '../../base/decimals.ts';
import type { LeaseholdError } from '../../base/errors.ts';
import type { CallHeaders, Connection } from './connections.ts';
import { RawStream } from './raw-stream.ts';
import type { Span } from './wire.ts';

const PULSE_MS = 1_000;
const SILENT_PULSES_MAX = 2;
/** Tokens live longer than this; etcd's default is five minutes. */
const YOUNG_MS = 60_000;

export interface WatchLineOptions {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly prepare: (connection: Connection) => Promise<CallHeaders>;
  readonly onMessage: (response: IWatchResponse) => void;
  /** The line is over, and not by `close`; as in raw-stream.ts. */
  readonly onLost: (denial: LeaseholdError | undefined) => void;
}

export class WatchLine {
  readonly #clock: Clock;
  readonly #stream: RawStream<IWatchRequest, IWatchResponse>;
  readonly #onLost: WatchLineOptions['onLost'];
  readonly #openedMs: number;
  #pulse: Timer;
  #wasHeard = false;
  #silentPulses = 0;

  constructor({ connection, clock, prepare, onMessage, onLost }: WatchLineOptions) {
    this.#clock = clock;
    this.#openedMs = clock.nowMs();
    this.#onLost = onLost;
    this.#stream = new RawStream({
      connection,
      prepare: () => prepare(connection),
      open: (client, options) => client.watchClient.watch(options),
      onMessage: (response) => {
        this.#wasHeard = true;
        onMessage(response);
      },
      onLost: (denial) => {
        this.#lose(denial);
      },
    });
    this.#pulse = this.#armPulse();
  }

  get connection(): Connection {
    return this.#stream.connection;
  }

  /** It was opened so lately that its token should still be good. */
  get isYoung(): boolean {
    return this.#clock.nowMs() - this.#openedMs < YOUNG_MS;
  }

  /** Asks for the events of a span from a revision on; `id` is new on this line. */
  create(id: string, span: Span, fromRevision: Revision): void {
    this.#stream.write({
      create_request: {
        ...span,
        watch_id: id,
        // Zero would mean "from now on".
        start_revision: compareDecimals(fromRevision, '1') < 0 ? '1' : fromRevision,
        // Answers above etcd's limit for requests would end the stream otherwise.
        fragment: true,
      },
    });
  }

  cancel(id: string): void {
    this.#stream.write({ cancel_request: { watch_id: id } });
  }

  close(): void {
    this.#clock.clearTimeout(this.#pulse);
    this.#stream.close();
  }

  #armPulse(): Timer {
    return this.#clock.setTimeout(() => {
      this.#silentPulses = this.#wasHeard ? 0 : this.#silentPulses + 1;
      this.#wasHeard = false;
      if (this.#silentPulses >= SILENT_PULSES_MAX) {
        this.#lose(undefined);
        return;
      }
      this.#stream.write({ progress_request: {} });
      this.#pulse = this.#armPulse();
    }, PULSE_MS);
  }

  #lose(denial: LeaseholdError | undefined): void {
    this.close();
    this.#onLost(denial);
  }
}
