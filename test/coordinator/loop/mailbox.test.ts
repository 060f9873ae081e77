import { describe, expect, test } from '@jest/globals';
import { Subject } from 'rxjs';
import { Mailbox, type Message } from '../../../src/coordinator/loop/mailbox.ts';

interface Made {
  readonly mailbox: Mailbox;
  readonly told: string[];
  readonly crashes: unknown[];
  say(text: string): Message;
}

function made(decide: (told: string[]) => void = (told) => told.push('decide')): Made {
  const told: string[] = [];
  const crashes: unknown[] = [];
  const mailbox = new Mailbox(
    () => {
      decide(told);
    },
    (error) => crashes.push(error),
  );
  return { mailbox, told, crashes, say: (text) => () => void told.push(text) };
}

const turn = (): Promise<void> => new Promise((resolve) => queueMicrotask(resolve));

describe('mailbox', () => {
  test('mailbox - handles a message at once, and decides once after the burst', async () => {
    const { mailbox, told, say } = made();
    mailbox.post(say('a'));
    mailbox.post(say('b'));
    expect(told).toEqual(['a', 'b']);
    await turn();
    expect(told).toEqual(['a', 'b', 'decide']);
    await turn();
    expect(told).toHaveLength(3);
  });

  test('mailbox - a message posted while another is handled waits for its end (R9)', async () => {
    const { mailbox, told, say } = made();
    mailbox.post(() => {
      told.push('outer begins');
      mailbox.post(say('inner'));
      mailbox.postQuietly(say('quiet'));
      told.push('outer ends');
    });
    expect(told).toEqual(['outer begins', 'outer ends', 'inner', 'quiet']);
  });

  test('mailbox - what is posted while deciding waits until the decision is taken, and calls for another', async () => {
    let rounds = 0;
    const { mailbox, told } = made((all) => {
      all.push('decision begins');
      rounds += 1;
      if (rounds === 1) mailbox.post(() => void all.push('message'));
      all.push('decision ends');
    });
    mailbox.post(() => undefined);
    await turn();
    await turn();
    expect(told).toEqual([
      'decision begins',
      'decision ends',
      'message',
      'decision begins',
      'decision ends',
    ]);
  });

  test('mailbox - a quiet message calls for no decision', async () => {
    const { mailbox, told, say } = made();
    mailbox.postQuietly(say('commit'));
    await turn();
    expect(told).toEqual(['commit']);
  });

  test('mailbox - merges streams in the order in which they speak', () => {
    const { mailbox, told, say } = made();
    const [one, two] = [new Subject<Message>(), new Subject<Message>()];
    mailbox.connect(one);
    mailbox.connect(two);
    two.next(say('two'));
    one.next(say('one'));
    one.complete();
    two.next(say('two again'));
    expect(told).toEqual(['two', 'one', 'two again']);
  });

  test('mailbox - reports what a message or a decision throws, and goes on', async () => {
    let isFirst = true;
    const { mailbox, told, crashes, say } = made(() => {
      if (isFirst) {
        isFirst = false;
        throw new Error('decision');
      }
    });
    mailbox.post(() => {
      mailbox.post(say('next'));
      throw new Error('message');
    });
    await turn();
    mailbox.post(say('later'));
    expect(told).toEqual(['next', 'later']);
    expect(crashes.map((error) => (error as Error).message)).toEqual(['message', 'decision']);
  });

  test('mailbox - once closed handles nothing, decides nothing and listens to no stream', async () => {
    const { mailbox, told, say } = made();
    const stream = new Subject<Message>();
    mailbox.connect(stream);
    mailbox.post(() => {
      mailbox.post(say('queued'));
      mailbox.close();
    });
    mailbox.post(say('posted'));
    mailbox.requestDecision();
    expect(stream.observed).toBe(false);
    stream.next(say('streamed'));
    mailbox.connect(new Subject<Message>());
    await turn();
    await turn();
    expect(told).toEqual([]);
  });
});
