/** The package entry `leasehold/etcd`. */
export type { EtcdTlsOptions } from './certificates.ts';
export type { EtcdAuthOptions, EtcdStoreOptions } from './options.ts';
export { type EtcdStore, etcdStore } from './store.ts';
