/** Tokens that etcd refuses: which of them are fetched again, and when. No etcd is needed for it. */
import { beforeEach, expect, test } from '@jest/globals';
import { EtcdAuthenticationFailedError, EtcdPermissionDeniedError } from 'etcd3';
import { LeaseholdError } from '../../../src/base/errors.ts';
import { virtualClock, type VirtualClock } from '../../../src/base/virtual-clock.ts';
import { failureOf } from '../../../src/store/etcd/failures.ts';
import { Tokens } from '../../../src/store/etcd/tokens.ts';

/** As the interceptor calls it. */
const refusal = () => new Error('16 UNAUTHENTICATED: etcdserver: auth token refused');

let clock: VirtualClock;
let tokens: Tokens;
let logIns: number;
let logIn: () => Promise<{ token: string }>;
const connection = { client: { auth: { authenticate: () => logIn() } } } as never;

beforeEach(() => {
  clock = virtualClock();
  logIns = 0;
  logIn = () => {
    logIns += 1;
    return Promise.resolve({ token: `token-${logIns}` });
  };
  tokens = new Tokens({ username: 'worker', password: 'secret' }, clock);
});

/** Sends to a member that takes tokens from this log-in on, and says what came of it. */
async function sendTo(takesFrom: number): Promise<string> {
  const send = (token: string): Promise<string> =>
    Number(token.slice('token-'.length)) >= takesFrom
      ? Promise.resolve(token)
      : Promise.reject(refusal());
  const call = { name: 'read', endpoint: 'a', hasAnswered: true, wasFull: false };
  return tokens.send(connection, send).catch((thrown: unknown) => {
    const { error } = failureOf(thrown, { ...call, kind: 'write' });
    return error.code;
  });
}

test('tokens - one that was good and has run out is fetched again at once, by the call that finds out', async () => {
  expect(await sendTo(1)).toBe('token-1');
  await clock.advance(300_000);
  expect(await sendTo(2)).toBe('token-2');
  expect(await sendTo(3)).toBe('token-3');
});

test('tokens - a new one that is refused is no denial: nothing was written, and the next is fetched with growing pauses', async () => {
  const codes = new Set<string>();
  while (clock.nowMs() < 60_000) {
    codes.add(await sendTo(1_000));
    await clock.advance(10);
  }
  expect([...codes]).toEqual(['E_STORE_UNREACHABLE']);
  // Seven while the pause doubles from 50 ms to five seconds, then one each five seconds.
  expect(logIns).toBeGreaterThanOrEqual(17);
  expect(logIns).toBeLessThanOrEqual(20);
  await clock.advance(5_000);
  expect(await sendTo(logIns + 1)).toBe(`token-${logIns}`);
  // Of the pauses nothing is left.
  const before = logIns;
  expect(await sendTo(before + 1)).toBe(`token-${before + 1}`);
  expect(await sendTo(before + 100)).toBe('E_STORE_UNREACHABLE');
  await clock.advance(50);
  expect(await sendTo(logIns + 1)).toBe(`token-${logIns}`);
});

test('tokens - of calls that were refused together one fetches a new one', async () => {
  expect(await sendTo(1)).toBe('token-1');
  const answers = await Promise.all(Array.from({ length: 20 }, () => sendTo(2)));
  expect([new Set(answers), logIns]).toEqual([new Set(['token-2']), 2]);
});

test('tokens - a wrong password and a missing permission are denials, and cost no pause', async () => {
  const codeOf = async (sent: Promise<unknown>): Promise<string> => {
    const thrown = await sent.catch((error: unknown) => error);
    const call = { name: 'read', endpoint: 'a', hasAnswered: true, wasFull: false };
    const { error } = failureOf(thrown, { ...call, kind: 'read' });
    expect(error).toBeInstanceOf(LeaseholdError);
    return error.code;
  };
  const good = logIn;
  logIn = () => Promise.reject(new EtcdAuthenticationFailedError('invalid password'));
  expect(await codeOf(tokens.send(connection, (token) => Promise.resolve(token)))).toBe(
    'E_STORE_DENIED',
  );
  logIn = good;
  const denied = () => Promise.reject(new EtcdPermissionDeniedError('permission denied'));
  expect(await codeOf(tokens.send(connection, denied))).toBe('E_STORE_DENIED');
  // The token was taken, so that it is fetched anew at once when it has run out.
  expect(await sendTo(2)).toBe('token-2');
});
