/**
 * All that is used of etcd3, and the only place that names it: the package carries this module in one file, together with
 * grpc-js and the definitions of etcd's protocol (test/tools/carry-etcd3.ts, ADR 22). As they come from npm, a bundler cannot
 * take them along: etcd3 reads a file that lies beside it, and both ask for Node's modules by `require`.
 */
export { noop } from 'cockatiel';
export {
  ClientClosedError,
  Etcd3,
  EtcdAuthenticationFailedError,
  EtcdError,
  EtcdInvalidAuthTokenError,
  EtcdLeaseInvalidError,
  EtcdPermissionDeniedError,
  EtcdRoleNotFoundError,
  EtcdUserNotFoundError,
  GRPCFailedPreconditionError,
  GRPCGenericError,
  GRPCInvalidArgumentError,
  GRPCNotImplementedError,
  GRPCOutOfRangeError,
  GRPCResourceExhastedError,
  GRPCUnauthenticatedError,
} from 'etcd3';
export type {
  ICompare,
  IEvent,
  IKeyValue,
  ILeaseKeepAliveRequest,
  ILeaseKeepAliveResponse,
  IOptions,
  IRangeResponse,
  IRequestOp,
  ITxnResponse,
  IWatchRequest,
  IWatchResponse,
} from 'etcd3';
