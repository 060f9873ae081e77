import { describe, expect, test } from '@jest/globals';
import type { CoordinationEvent } from '../../../src/coordinator/api/api.ts';
import { EventSink } from '../../../src/coordinator/loop/event-sink.ts';

const lost = (epoch: number): CoordinationEvent => ({
  type: 'lost',
  splitId: 's1',
  epoch: String(epoch),
  reason: 'fenced',
});
const gained = (id: string, epoch: number): CoordinationEvent => ({
  type: 'gained',
  split: { id, descriptor: new Uint8Array(), weight: 1 },
  epoch: String(epoch),
  progress: null,
});
const news = (generation: number): CoordinationEvent => ({ type: 'leadershipGained', generation });

async function drain(stream: AsyncIterable<CoordinationEvent>): Promise<CoordinationEvent[]> {
  const events: CoordinationEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

describe('event sink', () => {
  test('listeners and streams - hear each event in order, from when they came', async () => {
    const sink = new EventSink(() => undefined);
    const heard: CoordinationEvent[] = [];
    sink.emit(lost(0));
    const off = sink.listen((event) => heard.push(event));
    const stream = sink.stream();
    sink.emit(lost(1));
    sink.emit(news(2));
    off();
    sink.emit(lost(3));
    sink.close();
    expect(heard).toEqual([lost(1), news(2)]);
    expect(await drain(stream)).toEqual([lost(1), news(2), lost(3)]);
  });

  test('a stream - that nobody reads keeps 1,000 informational events, and says how many it dropped', async () => {
    const sink = new EventSink(() => undefined);
    const stream = sink.stream();
    for (let index = 0; index < 3_000; index += 1) sink.emit(news(index));
    expect(stream.dropped).toBe(2_000);
    sink.close();
    expect(await drain(stream)).toEqual(Array.from({ length: 1_000 }, (_, index) => news(index)));
  });

  test('a stream - that is behind by less than 1,000 ownership events has all of them', async () => {
    const sink = new EventSink(() => undefined);
    const stream = sink.stream();
    const told = Array.from({ length: 500 }, (_, epoch) => [gained('s1', epoch), lost(epoch)]);
    for (const event of told.flat()) sink.emit(event);
    sink.close();
    expect(stream.dropped).toBe(0);
    expect(await drain(stream)).toEqual(told.flat());
  });

  test('a stream - that nobody reads is bounded by what is held, however many tenancies pass (R54)', async () => {
    const sink = new EventSink(() => undefined);
    const stream = sink.stream();
    let emitted = 0;
    const tell = (event: CoordinationEvent): void => {
      emitted += 1;
      sink.emit(event);
    };
    for (let epoch = 0; epoch < 20_000; epoch += 1) {
      tell(gained('s1', epoch));
      tell({
        type: 'revokeRequested',
        splitId: 's1',
        epoch: String(epoch),
        reason: 'paused',
        deadlineMs: 1,
      });
      tell({ type: 'revokeCancelled', splitId: 's1', epoch: String(epoch) });
      if (epoch % 2 === 0) tell(lost(epoch));
    }
    for (let round = 0; round < 2_000; round += 1) {
      tell({
        type: 'revokeRequested',
        splitId: 's1',
        epoch: '19999',
        reason: 'paused',
        deadlineMs: 1,
      });
    }
    sink.close();
    const events = await drain(stream);
    expect(events.length).toBeLessThanOrEqual(1_001);
    expect(stream.dropped).toBe(emitted - events.length);
    expect(events.at(-1)).toMatchObject({ type: 'revokeRequested', epoch: '19999' });
    expect(events.some(({ type }) => type === 'gained')).toBe(true);
  });

  test('a stream - that was read up to a gain still tells of its loss, and of what is held now', async () => {
    const sink = new EventSink(() => undefined);
    const stream = sink.stream();
    sink.emit(gained('s1', 1));
    sink.emit(gained('s2', 1));
    await stream.next();
    await stream.next();
    sink.emit(lost(1));
    for (let epoch = 1; epoch <= 2_000; epoch += 1) sink.emit(gained('s3', epoch));
    sink.close();
    const events = await drain(stream);
    expect(events[0]).toEqual(lost(1));
    expect(events.at(-1)).toEqual(gained('s3', 2_000));
    expect(events.length).toBeLessThanOrEqual(1_001);
  });

  test('a stream - that nobody reads is bounded also where every tenancy is of another split (R54)', async () => {
    const sink = new EventSink(() => undefined);
    const stream = sink.stream();
    for (let index = 0; index < 60_000; index += 1) sink.emit(gained(`s${index}`, 1));
    sink.close();
    const events = await drain(stream);
    expect(events.length).toBeLessThanOrEqual(16_385);
    expect(stream.dropped).toBe(60_000 - events.length);
    expect(events.at(-1)).toEqual(gained('s59999', 1));
  });

  test('a listener - hears all that a stream forgets (R54)', () => {
    const sink = new EventSink(() => undefined);
    sink.stream();
    let heard = 0;
    sink.listen(() => (heard += 1));
    for (let epoch = 0; epoch < 5_000; epoch += 1) sink.emit(gained('s1', epoch));
    expect(heard).toBe(5_000);
  });

  test('a stream that is read - makes room again for what may be dropped', async () => {
    const sink = new EventSink(() => undefined);
    const stream = sink.stream();
    for (let round = 0; round < 5; round += 1) {
      for (let index = 0; index < 1_000; index += 1) sink.emit(news(index));
      for (let index = 0; index < 1_000; index += 1) await stream.next();
    }
    expect(stream.dropped).toBe(0);
  });

  test('a reader that waits - gets the event itself; a second reader takes its place', async () => {
    const sink = new EventSink(() => undefined);
    const stream = sink.stream();
    const first = stream.next();
    const second = stream.next();
    sink.emit(lost(1));
    expect(await first).toEqual({ done: true, value: undefined });
    expect(await second).toEqual({ done: false, value: lost(1) });
    const waiting = stream.next();
    sink.close();
    expect(await waiting).toEqual({ done: true, value: undefined });
  });

  test('a stream left in the middle - is forgotten with all it held', async () => {
    const sink = new EventSink(() => undefined);
    const stream = sink.stream();
    sink.emit(lost(1));
    sink.emit(lost(2));
    for await (const event of stream) {
      expect(event).toEqual(lost(1));
      break;
    }
    sink.emit(lost(3));
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  test('close - ends every stream and forgets every listener; streams opened later end at once', async () => {
    const sink = new EventSink(() => undefined);
    const heard: CoordinationEvent[] = [];
    sink.listen((event) => heard.push(event));
    sink.close();
    sink.emit(lost(1));
    expect(heard).toEqual([]);
    expect(await drain(sink.stream())).toEqual([]);
  });
});
