/**
 * A job that runs over an etcd of three members. Every worker is the same one from the beginning to the end; the checks of
 * what was stored read the recorded history and nothing else.
 */
import { expect } from '@jest/globals';
import { ids } from '../../support/fleet.ts';
import { type EtcdCluster, startCluster } from './server/cluster.ts';
import { EtcdFleet, seconds } from './fleet.ts';
import { machineMs } from './time-line.ts';

/** Members elect a leader within one to three seconds on a busy machine. */
export const LEASE_MS = seconds(5);
export const SPLITS = ids(6);
const WORKERS = ['a', 'b', 'c'];
/** How soon everything is served again after the cluster is; a lease, the rebalance delay, and a busy machine. */
export const RECOVERY_MS = 3 * LEASE_MS;

export class ClusterFleet {
  readonly cluster: EtcdCluster;
  readonly fleet: EtcdFleet;

  private constructor(cluster: EtcdCluster) {
    this.cluster = cluster;
    this.fleet = new EtcdFleet({
      endpoints: cluster.endpoints,
      gateways: cluster.gateways,
      splits: SPLITS,
      config: { leaseDurationMs: LEASE_MS, replanIntervalMs: LEASE_MS },
      work: { stepMs: 40 },
    });
  }

  static async start(): Promise<ClusterFleet> {
    return new ClusterFleet(await startCluster());
  }

  async close(): Promise<void> {
    await this.fleet.close();
    await this.cluster.stop();
  }

  /** Starts the workers, each with another member first, and waits until all work. */
  async run(
    endpointsOf = (index: number): readonly string[] => this.rotated(index),
  ): Promise<void> {
    const { fleet } = this;
    WORKERS.forEach((id, index) => fleet.start(id, { store: { endpoints: endpointsOf(index) } }));
    await fleet.until(
      'all work',
      () =>
        WORKERS.every((id) => fleet.leasesOf(id).length === 2) &&
        SPLITS.every((id) => fleet.watermark(id) > 2),
    );
  }

  /** The members' endpoints, from one of them on. */
  rotated(first: number): string[] {
    const { endpoints } = this.cluster;
    return endpoints.map((_, offset) => endpoints[(first + offset) % endpoints.length]!);
  }

  /** Waits until every split is committed to again, by the workers that were there from the beginning. */
  async goOn(): Promise<void> {
    const { fleet } = this;
    const sinceMs = machineMs();
    await fleet.until(
      'all go on',
      () => SPLITS.every((split) => fleet.timeLine.has({ what: 'committed', split, sinceMs })),
      RECOVERY_MS,
    );
    expect(fleet.workers.map(({ run: { state } }) => state)).toEqual(WORKERS.map(() => 'pending'));
  }

  /** Waits until each session was renewed within the last third of a lease. */
  async renewed(): Promise<void> {
    await this.fleet.until('all renewed', () =>
      this.fleet.workers.every(({ worker }) => worker.status().sessionLeftMs > (LEASE_MS * 2) / 3),
    );
  }

  /**
   * What must hold after all: no progress that a worker was promised is gone, no epoch had two owners, each generation one
   * leader, nothing is missing from the record, and no two handlers ran at once.
   */
  async expectSound(): Promise<void> {
    const { fleet } = this;
    await Promise.all(fleet.workers.map(({ worker }) => worker.stop()));
    expect(await fleet.verify()).toEqual([]);
    expect(fleet.timeLine.overlaps()).toEqual([]);
    for (const split of SPLITS) {
      const promised = fleet.timeLine
        .all({ what: 'committed', split })
        .map(({ watermark }) => watermark!);
      expect(fleet.watermark(split)).toBeGreaterThanOrEqual(Math.max(...promised));
      const landed = new Set(
        fleet.recorder.entries
          .filter(({ key }) => key === fleet.keys.split(split as never))
          .map(({ value }) =>
            Number((JSON.parse(value!) as { watermark: string | null }).watermark),
          ),
      );
      expect(promised.filter((watermark) => !landed.has(watermark))).toEqual([]);
    }
  }
}
