/** The package entry `leasehold/etcd`. */
export type { EtcdTlsOptions } from './options/certificates.ts';
export type { EtcdAuthOptions, EtcdProxy, EtcdStoreOptions } from './options/options.ts';
export { type EtcdStore, etcdStore } from './store.ts';
