/** What the peer chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface PeerContext {
  readonly instance: string;
  /** How long its splits wait for it. */
  readonly delayMs: number;
}

export interface PeerInput {
  readonly instance: string;
}

export type PeerEvent =
  | { type: 'peer.announced' }
  | { type: 'peer.parting' }
  /** `delayMs`: what is left of the rebalance delay, which may have begun before this worker looked. */
  | { type: 'peer.vanished'; delayMs: number }
  | { type: 'delay.elapsed' };
