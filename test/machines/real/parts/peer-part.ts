/** The peers of a real worker that leads: another worker comes, goes and comes back, and its split with it. */
import type { AnyEventObject } from 'xstate';
import type { InstanceId } from '../../../../src/base/ids.ts';
import { assignmentCodec } from '../../../../src/records/records.ts';
import { chartOf } from '../../drive.ts';
import type { Replace } from '../chart-probe.ts';
import { type Part, say, type World } from './part.ts';
import { ME, SPLIT, Stage } from '../stage.ts';

const PEER = 'b' as InstanceId;
/** Two decisions of a leader lie at most this far apart. */
const DECIDED_MS = 300;

class PeerWorld implements World {
  readonly id = PEER;
  readonly stage: Stage;

  constructor(rebalanceDelayMs: number, replace: Replace | undefined) {
    this.stage = new Stage({ config: { rebalanceDelayMs }, replace });
    const { hand } = this.stage;
    hand.plan();
    hand.spec(SPLIT);
    hand.split(SPLIT, { owner: PEER });
    hand.lease(SPLIT, null, PEER);
    hand.presence(PEER, { maxInFlight: 8 });
  }

  get probe() {
    return this.stage.probe;
  }

  get feed() {
    return this.stage.feed;
  }

  until(condition: () => boolean): Promise<boolean> {
    return this.stage.until(condition);
  }

  shown(): string | undefined {
    return this.stage.worker.status().peers.find(({ instance }) => instance === PEER)?.state;
  }

  inject(event: AnyEventObject): void {
    this.stage.inject('peer', PEER, event);
  }

  /** What an instance is named for; null when nothing is decided about it. */
  named(instance: InstanceId): readonly string[] | null {
    const entry = this.stage.entry(this.stage.keys.assignment(instance));
    const decoded = assignmentCodec.decode(entry?.value ?? '');
    return decoded.kind === 'record' ? decoded.record.splits : null;
  }
}

export function peerPart(rebalanceDelayMs: number): Part<PeerWorld> {
  return {
    chart: chartOf('peer'),
    input: { instance: PEER },
    payloads: { 'peer.vanished': [{ delayMs: rebalanceDelayMs }] },
    model: null,
    isPossible: () => true,

    async begin(_, replace) {
      const world = new PeerWorld(rebalanceDelayMs, replace);
      world.stage.start();
      await world.until(() => world.named(PEER)?.includes(SPLIT) === true);
      return world;
    },

    executors: {
      'peer.announced': ({ stage }) => {
        stage.hand.presence(PEER, { maxInFlight: 8 });
      },
      'peer.parting': ({ stage }) => {
        stage.hand.presence(PEER, { maxInFlight: 8, parting: true });
      },
      // Its session runs out: everything that hung on it goes at once.
      'peer.vanished': ({ stage }) => {
        stage.hand.remove(stage.keys.presence(PEER));
        if (stage.lease()?.owner === PEER) stage.hand.remove(stage.keys.lease(SPLIT));
      },
      'delay.elapsed': () => undefined,
    },

    promises: {
      present: async (world) => {
        await world.stage.clock.advance(DECIDED_MS);
        return say(world.named(PEER) !== null, 'nothing is decided about it');
      },
      withheld: async (world) => {
        await world.stage.clock.advance(DECIDED_MS);
        const isTaken = world.named(ME)?.includes(SPLIT) === true;
        const isWaiting = world.stage.split()?.owner !== PEER || !isTaken;
        return [
          ...say(isWaiting, 'its split was given away'),
          ...say(world.named(PEER) !== null, 'it was given up'),
        ];
      },
      gone: async (world) => {
        await world.stage.clock.advance(DECIDED_MS);
        return [
          ...say(world.named(PEER) === null, 'it is still named for something'),
          ...say(world.named(ME)?.includes(SPLIT) === true, 'its split is nobody’s'),
        ];
      },
    },
  };
}
