/** Ways into the states of a worker's way to the store, and of what it follows. */
import { looksAt } from '../../../src/store/faults.ts';
import type { AnyFleet, SeamWorker } from '../fleet.ts';
import { chartIn, LOST, type StateCase, watchIn, way } from './way.ts';

function failReading(fleet: AnyFleet, a: SeamWorker): void {
  a.client.when(looksAt((key) => key === `${fleet.keys.root}leases/`)).loseBefore();
}

export const LINK_CASES: readonly StateCase[] = [
  way('link.serving', chartIn('link', 'serving'), { then: () => undefined }),
  way('link.faltering', chartIn('link', 'faltering'), { then: failReading }),
  way('link.failing', chartIn('link', 'failing'), { then: failReading }),
  way('link.denied', chartIn('link', 'denied'), {
    then: (_, a) => {
      a.client.when('any').deny();
    },
  }),
  way('link.barred', chartIn('link', 'barred'), {
    then: (_, a) => {
      a.client.when('any').deny();
    },
  }),
];

export const FOLLOW_CASES: readonly StateCase[] = [
  way('follow.listing', watchIn('leases/', 'listing'), {
    started: (fleet, a) => {
      a.client.when(looksAt((key) => key === `${fleet.keys.root}leases/`)).loseBefore(LOST);
    },
  }),
  way('follow.pausing', watchIn('leases/', 'pausing'), {
    started: (fleet, a) => {
      a.client.when(looksAt((key) => key === `${fleet.keys.root}leases/`)).loseBefore();
    },
  }),
  way('follow.watching.quiet', watchIn('leases/', 'watching.quiet'), { then: () => undefined }),
  way('follow.watching.checking', watchIn('leases/', 'watching.checking'), {
    then: (fleet, a) => {
      a.client.when(looksAt((key) => key === `${fleet.keys.root}leases/`)).loseBefore(LOST);
    },
  }),
  way('follow.refused', watchIn('leases/', 'refused'), {
    then: (fleet, a) => {
      a.client.when(looksAt((key) => key === `${fleet.keys.root}leases/`)).deny();
    },
  }),
];
