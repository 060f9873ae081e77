/** What the log says: every line by a name of the table, at its level, with who, what and why. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { Logger } from '../../../src/base/logger.ts';
import { createWorker } from '../../../src/index.ts';
import { LOG_EVENTS, type LogEvent } from '../../../src/coordinator/api/log-events.ts';
import {
  completeAtOnce,
  finalPlan,
  holdUntilAsked,
  ids,
  LEASE_MS,
  type LoggedLine,
  type Surroundings,
  watched,
} from '../../support/fleet.ts';
import { fleet, startFleet } from '../../support/scenario.ts';

const SRC = path.resolve(import.meta.dirname, '../../../src');

/** The lines of one name that a worker has logged. */
function linesOf({ lines }: Pick<Surroundings, 'lines'>, event: LogEvent): readonly LoggedLine[] {
  return lines.filter((line) => line.event === event);
}

/** Lines whose name is not in the table, or not at this level. */
function strayLines({ lines }: Pick<Surroundings, 'lines'>): readonly LoggedLine[] {
  const known: Readonly<Record<string, readonly [string, string]>> = LOG_EVENTS;
  return lines.filter(
    ({ event, level }) => known[event]?.[0].split(' or ').includes(level) !== true,
  );
}

describe('log', () => {
  test('every line - of a fleet that lives, loses one and ends is in the table, with job and instance', async () => {
    await startFleet({ planner: finalPlan(ids(6)) });
    const a = fleet.worker('a', holdUntilAsked);
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.until(
      '3 and 3',
      () => fleet.leasesOf('a').length === 3 && fleet.leasesOf('b').length === 3,
    );
    b.crash();
    await fleet.until('a has all', () => fleet.leasesOf('a').length === 6, 10 * LEASE_MS);
    const stop = watched(a.worker.stop());
    await fleet.until('a has left', () => stop.state === 'resolved', 20_000);
    expect(strayLines(a)).toEqual([]);
    for (const { fields } of a.lines) expect(fields).toMatchObject({ job: 'job', instanceId: 'a' });
    const gained = linesOf(a, 'split.gained');
    expect(gained.length).toBeGreaterThanOrEqual(6);
    for (const { level, fields } of gained) {
      expect(level).toBe('debug');
      expect(fields).toMatchObject({ split: expect.any(String), epoch: expect.any(String) });
    }
  });

  test('a peer that vanished - is a warning with its name; one that left in order is none', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = fleet.seam('a');
    await fleet.until('a leads', () => fleet.leader() === 'a');
    const b = fleet.seam('b');
    const c = fleet.seam('c');
    await fleet.until('they are there', () => linesOf(a, 'peer.joined').length === 2);
    b.crash();
    void c.coordinator.stop();
    await fleet.until('b is gone', () => linesOf(a, 'peer.vanished').length > 0, 3 * LEASE_MS);
    await fleet.advance(2 * LEASE_MS);
    expect(linesOf(a, 'peer.vanished')).toMatchObject([
      { level: 'warn', fields: { instance: 'b' } },
    ]);
    expect(linesOf(a, 'peer.left')).toMatchObject([{ level: 'info', fields: { instance: 'c' } }]);
  });

  test('an orderly stop - of a leader warns of nothing', async () => {
    await startFleet({ planner: finalPlan(ids(2)) });
    const a = fleet.worker('a', holdUntilAsked);
    const b = fleet.worker('b', holdUntilAsked);
    await fleet.until(
      'one each',
      () => fleet.leasesOf('a').length === 1 && fleet.leasesOf('b').length === 1,
    );
    const leader = fleet.leader() === 'a' ? a : b;
    const stop = watched(leader.worker.stop());
    await fleet.until('it has left', () => stop.state === 'resolved', 20_000);
    expect(linesOf(leader, 'leadership.lost')).toMatchObject([{ level: 'info' }]);
    expect(leader.lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
  });

  test('a handler - that throws is logged with its error under err, with stack and cause', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const cause = new Error('connection reset');
    const error = new Error('upload failed', { cause });
    let calls = 0;
    const a = fleet.worker('a', async (grant) => {
      calls += 1;
      if (calls === 1) throw error;
      await grant.complete();
    });
    await fleet.until('the verdict', () => a.run.state === 'resolved', 30_000);
    const [line] = linesOf(a, 'handler.threw');
    expect(line).toMatchObject({
      level: 'warn',
      message: expect.stringContaining('upload failed'),
    });
    expect(line!.fields).toMatchObject({
      job: 'job',
      instanceId: 'a',
      split: 's1',
      epoch: '1',
      err: error,
    });
    expect((line!.fields.err as Error).cause).toBe(cause);
  });

  test('a return without completing, a quarantine and a stalled end - are warnings that say what to do', async () => {
    await startFleet({ planner: finalPlan(['bad', 'good']), config: { maxAttempts: 1 } });
    const a = fleet.worker('a', async (grant) => {
      if (grant.split.id === 'good') await grant.complete();
    });
    await fleet.until('the verdict', () => a.run.state === 'resolved', 60_000);
    const [returned] = linesOf(a, 'handler.returned');
    expect(returned).toMatchObject({ level: 'warn', fields: { split: 'bad', epoch: '1' } });
    expect(returned!.message).toContain('complete()');
    expect(linesOf(a, 'split.quarantined')).toMatchObject([
      {
        level: 'warn',
        fields: {
          split: 'bad',
          reason: expect.stringContaining('returned without completing'),
        },
      },
    ]);
    const [verdict] = linesOf(a, 'job.verdict');
    expect(verdict).toMatchObject({ level: 'warn', fields: { quarantinedIds: ['bad'] } });
    expect(verdict!.message).toContain('requeue');
    expect(strayLines(a)).toEqual([]);
  });

  test('an end without loss - is no warning', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker('a', completeAtOnce);
    await fleet.until('the verdict', () => a.run.state === 'resolved', 30_000);
    expect(linesOf(a, 'job.verdict')).toMatchObject([{ level: 'info' }]);
    expect(a.lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
  });

  test('a handler that does not hand its split back - is named when it is taken', async () => {
    await startFleet({ planner: finalPlan(['s1']) });
    const a = fleet.worker(
      'a',
      (grant) =>
        new Promise((resolve) => {
          grant.lost.addEventListener('abort', () => resolve());
        }),
    );
    await fleet.until('held', () => fleet.leasesOf('a').length === 1);
    await fleet.operator().pause();
    await fleet.until('taken', () => linesOf(a, 'split.forced').length === 1, 20_000);
    expect(linesOf(a, 'split.forced')[0]!.fields).toMatchObject({ split: 's1', epoch: '1' });
    expect(linesOf(a, 'split.lost')).toMatchObject([
      { level: 'debug', fields: { reason: 'revoked' } },
    ]);
  });

  test('a logger that throws at every line - changes nothing', async () => {
    await startFleet({ planner: finalPlan(ids(3)) });
    const line = (): void => {
      throw new Error('disk full');
    };
    const logger: Logger = { debug: line, info: line, warn: line, error: line };
    const { store, clock, prefix } = fleet;
    const worker = createWorker({
      job: 'job',
      prefix,
      store: store,
      clock,
      logger,
      planner: finalPlan(ids(3)),
    });
    let calls = 0;
    const run = watched(
      worker.run(async (grant) => {
        calls += 1;
        if (calls === 1) throw new Error('once');
        await grant.complete();
      }),
    );
    await fleet.until('the verdict', () => run.state === 'resolved', 60_000);
    expect(run.value).toMatchObject({ kind: 'complete', completed: 3 });
  });

  test('the table - has a line in the source for each of its names', () => {
    const sources = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.endsWith('log-events.ts'))
      .map((file) => readFileSync(path.join(SRC, file), 'utf8'))
      .join('\n');
    const unused = Object.keys(LOG_EVENTS).filter((name) => !sources.includes(`'${name}'`));
    expect(unused).toEqual([]);
  });
});
