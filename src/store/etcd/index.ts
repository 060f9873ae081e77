/** The package entry `leasehold/etcd`. */
export type { EtcdAuthOptions, EtcdStoreOptions, EtcdTlsOptions } from './options.ts';
export { type EtcdStore, etcdStore } from './store.ts';
