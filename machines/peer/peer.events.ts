/** What the peer chart knows, is started with, and hears. Facts are `noun.past`, commands `noun.imperative`. */

export interface PeerContext {
  readonly instance: string;
  readonly rebalanceDelayMs: number;
}

export interface PeerInput {
  readonly instance: string;
  readonly rebalanceDelayMs: number;
}

export type PeerEvent =
  | { type: 'peer.announced' }
  | { type: 'peer.parting' }
  | { type: 'peer.vanished' }
  | { type: 'delay.elapsed' };
