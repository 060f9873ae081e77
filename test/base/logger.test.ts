import { describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { createWorker, LeaseholdError, type Logger, memoryStore } from '../../src/index.ts';
import { SILENT_LOGGER } from '../../src/base/logger.ts';

const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

test('logger - the silent one takes every level', () => {
  for (const level of LEVELS) {
    expect(() => {
      SILENT_LOGGER[level]({ event: 'x' }, 'message');
    }).not.toThrow();
  }
});

describe('a logger of pino', () => {
  type Line = Readonly<Record<string, unknown>>;

  /** The port, as pino fits it: types are checked by the compiler. */
  function logger(level = 'debug'): { log: Logger; lines: Line[] } {
    const lines: Line[] = [];
    const write = (line: string): void => void lines.push(JSON.parse(line) as Line);
    return { log: pino({ level, base: null }, { write }), lines };
  }

  test('a logger of pino - writes fields, message and level of every line', () => {
    const { log, lines } = logger();
    for (const level of LEVELS) log[level]({ event: `an.${level}`, splits: 3 }, `says ${level}`);
    expect(lines.map(({ level, event, splits, msg }) => ({ level, event, splits, msg }))).toEqual([
      { level: 20, event: 'an.debug', splits: 3, msg: 'says debug' },
      { level: 30, event: 'an.info', splits: 3, msg: 'says info' },
      { level: 40, event: 'an.warn', splits: 3, msg: 'says warn' },
      { level: 50, event: 'an.error', splits: 3, msg: 'says error' },
    ]);
  });

  test('a logger of pino - serializes an error under `err`: code, kind, details, stack and cause', () => {
    const { log, lines } = logger();
    const cause = new Error('no route');
    const details = { endpoint: 'etcd-0' };
    const err = new LeaseholdError('E_STORE_UNREACHABLE', 'not answered', { details, cause });
    log.warn({ event: 'x', err }, 'failed');
    expect(lines[0]!.err).toMatchObject({
      type: 'LeaseholdError',
      message: expect.stringContaining('not answered'),
      code: 'E_STORE_UNREACHABLE',
      kind: 'unavailable',
      details,
      stack: expect.stringMatching(/LeaseholdError: .*not answered[^]*caused by: Error: no route/),
    });
  });

  test('a logger of pino - is one for a worker: each line has event, job and instance', async () => {
    const { log, lines } = logger('info');
    const worker = createWorker({
      job: 'numbers',
      store: memoryStore(),
      instanceId: 'a',
      planner: {
        fingerprint: () => 'numbers:v1',
        plan: () => ({ splits: [{ id: 'one', descriptor: '' }], finality: 'final' }),
      },
      logger: log,
    });
    await worker.run((grant) => grant.complete());
    await worker.stop();
    const named = expect.objectContaining({
      event: expect.any(String),
      job: 'numbers',
      instanceId: 'a',
      msg: expect.any(String),
    });
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(line).toEqual(named);
    expect(lines[0]).toMatchObject({ level: 30, event: 'worker.starting' });
  });
});
