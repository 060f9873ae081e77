/** What may be given as a store. */
import { describe } from '../base/describe.ts';
import { having, type Rule } from '../base/shape.ts';

export const A_STORE: Rule = having(
  'a store',
  ['openSession', 'keepAlive', 'closeSession', 'read', 'transact', 'watch', 'close'],
  (value) =>
    typeof value === 'string'
      ? `make one with etcdStore({ endpoints: [${describe(value)}] }) of leasehold/etcd`
      : 'make one with etcdStore of leasehold/etcd, or with memoryStore',
);
