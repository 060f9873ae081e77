import { describe, expect, test } from '@jest/globals';
import type { CoordinationEvent } from '../../../src/coordinator/api/api.ts';
import { EventSink } from '../../../src/coordinator/loop/event-sink.ts';

const lost = (epoch: number): CoordinationEvent => ({
  type: 'lost',
  splitId: 's1',
  epoch: String(epoch),
  reason: 'fenced',
});
const news = (generation: number): CoordinationEvent => ({ type: 'leadershipGained', generation });

async function drain(stream: AsyncIterable<CoordinationEvent>): Promise<CoordinationEvent[]> {
  const events: CoordinationEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

describe('event sink', () => {
  test('listeners and streams - hear each event in order, from when they came', async () => {
    const sink = new EventSink();
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

  test('a stream - keeps ownership events without bound and 1,000 others, in their order', async () => {
    const sink = new EventSink();
    const stream = sink.stream();
    for (let index = 0; index < 3_000; index += 1) {
      sink.emit(lost(index));
      sink.emit(news(index));
    }
    expect(stream.dropped).toBe(2_000);
    sink.close();
    const events = await drain(stream);
    expect(events.filter(({ type }) => type === 'lost')).toEqual(
      Array.from({ length: 3_000 }, (_, index) => lost(index)),
    );
    expect(events.filter(({ type }) => type !== 'lost')).toEqual(
      Array.from({ length: 1_000 }, (_, index) => news(index)),
    );
  });

  test('a stream that is read - makes room again for what may be dropped', async () => {
    const sink = new EventSink();
    const stream = sink.stream();
    for (let round = 0; round < 5; round += 1) {
      for (let index = 0; index < 1_000; index += 1) sink.emit(news(index));
      for (let index = 0; index < 1_000; index += 1) await stream.next();
    }
    expect(stream.dropped).toBe(0);
  });

  test('a reader that waits - gets the event itself; a second reader takes its place', async () => {
    const sink = new EventSink();
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
    const sink = new EventSink();
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
    const sink = new EventSink();
    const heard: CoordinationEvent[] = [];
    sink.listen((event) => heard.push(event));
    sink.close();
    sink.emit(lost(1));
    expect(heard).toEqual([]);
    expect(await drain(sink.stream())).toEqual([]);
  });
});
