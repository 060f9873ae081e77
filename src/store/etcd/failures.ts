/**
 * What an error of etcd or of the way to it means to a caller.
 *
 * Losing the answer of a write says nothing about the write (R1). Only what etcd itself refuses before it proposes anything
 * is certainly not written.
 */
import {
  ClientClosedError,
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
import { type ErrorCode, isLeaseholdError, LeaseholdError, messageOf } from '../../base/errors.ts';
import { isTokenRefused } from './interceptor.ts';

/** A call that failed. */
export interface FailedCall {
  readonly kind: 'read' | 'write';
  /** For messages: `transact`. */
  readonly name: string;
  readonly endpoint: string;
  /** etcd has answered this store before, so that its options are right in principle. */
  readonly hasAnswered: boolean;
  /** When the call was sent, etcd was known to refuse writes for want of space. */
  readonly wasFull: boolean;
}

export interface Failure {
  readonly error: LeaseholdError;
  /** The way to etcd, or the member, may be at fault: another one may do better. */
  readonly isSuspect: boolean;
}

/** etcd does not know who asks: another password, or certificate, may do. */
const UNKNOWN_USER = [
  EtcdAuthenticationFailedError,
  EtcdRoleNotFoundError,
  EtcdUserNotFoundError,
  GRPCUnauthenticatedError,
];

/** What etcd refuses for good, whatever it holds: its limits or version are not what the store needs. */
const REFUSED = [
  GRPCFailedPreconditionError,
  GRPCInvalidArgumentError,
  GRPCNotImplementedError,
  GRPCOutOfRangeError,
];

const CERTIFICATE =
  /certificate|self.signed|altnames|unable to (get|verify)|wrong version number|ssl routines|tlsv1|sslv3/i;

/** etcd has no room. */
export function isFull(thrown: unknown): boolean {
  return /database space exceeded/.test(messageOf(thrown));
}

/** A read of a revision that is compacted away, or does not exist yet. */
export function isOutOfHistory(thrown: unknown): boolean {
  return thrown instanceof GRPCOutOfRangeError;
}

/** Users were changed since a token was made. */
export function isRevisionOld(thrown: unknown): boolean {
  return /revision of auth store is old|auth: revision/.test(messageOf(thrown));
}

/** The user is known, and may not do what was asked. */
export function isPermissionDenied(error: unknown): boolean {
  return isLeaseholdError(error) && error.cause instanceof EtcdPermissionDeniedError;
}

const PERMISSION_DENIED = 7;
const UNAUTHENTICATED = 16;

/**
 * Why a stream that ended must not be opened, if that is why. A token that has run out is no reason: the next stream gets a
 * new one.
 */
export function denialOf(thrown: unknown, endpoint: string): LeaseholdError | undefined {
  if (isLeaseholdError(thrown)) return thrown.kind === 'fatal' ? thrown : undefined;
  if (!(thrown instanceof Error) || !('code' in thrown)) return undefined;
  const { code, message } = thrown;
  const isDenied = code === PERMISSION_DENIED || code === UNAUTHENTICATED;
  return isDenied && !message.includes('auth token') ? denied(message, endpoint) : undefined;
}

/** etcd does not take what was sent on a stream. */
export function denied(reason: string, endpoint: string): LeaseholdError {
  return new LeaseholdError('E_STORE_DENIED', `etcd refuses this client (${endpoint}: ${reason})`, {
    details: { endpoint },
  });
}

export function isLeaseExisting(thrown: unknown): boolean {
  return /lease already exists/.test(messageOf(thrown));
}

export function isLeaseUnknown(thrown: unknown): boolean {
  return thrown instanceof EtcdLeaseInvalidError;
}

/** Judges what a call threw. Anything that is not an error of etcd or gRPC is a bug and thrown again. */
export function failureOf(thrown: unknown, call: FailedCall): Failure {
  if (isLeaseholdError(thrown)) return { error: thrown, isSuspect: false };
  const message = messageOf(thrown);
  const because = `${call.name} at ${call.endpoint}: ${message}`;
  const failed = (code: ErrorCode, text: string, isSuspect = false): Failure => ({
    error: new LeaseholdError(code, text, {
      details: { endpoint: call.endpoint, call: call.name },
      cause: thrown,
    }),
    isSuspect,
  });
  if (isLeaseUnknown(thrown)) {
    return failed('E_LEASE_EXPIRED', `a session is gone; nothing was written (${because})`);
  }
  if (isFull(thrown)) {
    // Measured: etcd 3.4 answers so as well for writes it has carried out, while it runs full.
    return call.kind === 'read' || call.wasFull
      ? failed('E_STORE_FULL', `etcd is out of space (${because}); compact, defragment, disarm`)
      : failed('E_OUTCOME_UNKNOWN', `etcd is running out of space (${because})`);
  }
  if (/too many requests/.test(message) || thrown instanceof ClientClosedError) {
    return failed('E_STORE_UNREACHABLE', `nothing was written (${because})`);
  }
  if (isRevisionOld(thrown)) {
    // Refused before it is carried out; a new connection fetches a new token.
    return failed('E_STORE_UNREACHABLE', `users changed; nothing was written (${because})`, true);
  }
  if (isTokenRefused(thrown) || thrown instanceof EtcdInvalidAuthTokenError) {
    // Of a token that is new this says nothing about the user: a member that lags behind does not know it yet.
    return failed('E_STORE_UNREACHABLE', `token refused; nothing was written (${because})`, true);
  }
  if (thrown instanceof EtcdPermissionDeniedError) {
    return failed('E_STORE_DENIED', `etcd refuses this client (${because})`);
  }
  if (isUserUnknown(thrown, message)) {
    // Password and certificate are read again for the next connection.
    return failed('E_STORE_DENIED', `etcd refuses this client (${because})`, true);
  }
  if (!call.hasAnswered && CERTIFICATE.test(message)) {
    const advice = 'check tls.caFile, tls.certFile, tls.keyFile and the scheme of the endpoints';
    return failed('E_STORE_DENIED', `no secure connection (${because}); ${advice}`, true);
  }
  if (isRefusal(thrown, message)) {
    const advice = 'leave --max-txn-ops and --max-request-bytes at their defaults or above';
    return failed('E_STORE_UNSUPPORTED', `etcd refuses what it must take (${because}); ${advice}`);
  }
  if (!(thrown instanceof GRPCGenericError) && !(thrown instanceof EtcdError)) throw thrown;
  return call.kind === 'read'
    ? failed('E_STORE_UNREACHABLE', because, true)
    : failed('E_OUTCOME_UNKNOWN', because, true);
}

function isUserUnknown(thrown: unknown, message: string): boolean {
  return (
    UNKNOWN_USER.some((error) => thrown instanceof error) ||
    /user name is empty|authentication is not enabled/.test(message)
  );
}

function isRefusal(thrown: unknown, message: string): boolean {
  if (REFUSED.some((refusal) => thrown instanceof refusal)) return true;
  // HTTP/2 has a use for this code too, which says nothing about the request.
  const isSaidByServer = /etcdserver|larger than max/.test(message);
  return thrown instanceof GRPCResourceExhastedError && isSaidByServer;
}
