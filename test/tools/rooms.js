/**
 * Who may import whom: every folder of the source is a room, and imports run one way. `npm run tidy` holds it with
 * dependency-cruiser; types count like values, so that no circle is hidden by `import type`.
 */

/** What every room of the coordinator stands on. */
const BELOW = ['base', 'records', 'protocol', 'machines', 'store'];
const LOOP = [...BELOW, 'coordinator/api', 'coordinator/loop'];
const LINK = [...LOOP, 'coordinator/link'];
const COORDINATOR = [
  ...LINK,
  'coordinator/membership',
  'coordinator/holding',
  'coordinator/leading',
  'coordinator',
];

/**
 * By room: the rooms, packages and builtins it may use beside itself. The longest room that a path lies in counts.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const ROOMS = {
  base: ['node:perf_hooks', 'node:timers', 'node:crypto'],
  records: ['base'],
  // Of the store the types alone: transactions are data.
  protocol: ['base', 'records', 'store'],
  machines: ['xstate', 'base', 'records', 'protocol'],
  'machines/diagrams': ['xstate', 'elkjs', 'node:*', 'base', 'machines'],
  store: ['base', 'rxjs'],
  // Certificates are read from files; cockatiel names the policy that switches etcd3's own retries off.
  'store/etcd': ['store', 'base', 'rxjs', 'etcd3', 'cockatiel', 'node:fs', 'node:tls'],
  'coordinator/api': ['base', 'records', 'protocol', 'store', 'machines'],
  'coordinator/loop': ['base', 'machines', 'xstate', 'rxjs', 'coordinator/api'],
  'coordinator/link': [...LOOP, 'rxjs'],
  'coordinator/membership': LINK,
  'coordinator/holding': LINK,
  'coordinator/leading': [...LINK, 'coordinator/membership'],
  coordinator: COORDINATOR,
  driver: ['base', 'store', 'coordinator', 'coordinator/api'],
  operator: ['base', 'records', 'protocol', 'store', 'machines'],
  testing: [...COORDINATOR, 'driver', 'operator', 'xstate', 'rxjs'],
  index: [...COORDINATOR, 'driver', 'operator'],
};
