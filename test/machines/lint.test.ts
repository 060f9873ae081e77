/** Every chart keeps the rules of lint.ts, and each rule fails for the mistake it is there for. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import {
  type AnyStateMachine,
  assign,
  cancel,
  createMachine,
  initialTransition,
  raise,
} from 'xstate';
import { CHARTS, type Ignored } from '../../machines/index.ts';
import { CASES } from './cases.ts';
import { explore } from './explore.ts';
import { lint } from './lint.ts';

const machines = path.resolve(import.meta.dirname, '../../machines');

describe('lint', () => {
  test.each(CHARTS)(
    'lint - $name keeps every rule in every state it can reach',
    (chart) => {
      const inputs = [chart.exampleInput, ...CASES[chart.name].inputs];
      const reached = inputs.flatMap((input) =>
        explore(chart.machine, input, CASES[chart.name].events),
      );
      expect(reached.length).toBeGreaterThan(3);
      expect(
        lint(
          chart,
          reached.map(({ snapshot }) => snapshot),
        ),
      ).toEqual([]);
    },
    60_000,
  );

  test('lint - every chart has its own file, and every file is in the table of charts', () => {
    const stems = readdirSync(machines, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.machine.ts'))
      .map((file) => path.basename(file, '.machine.ts'));
    expect(CHARTS.map(({ machine }) => machine.id).toSorted()).toEqual(stems.toSorted());
  });
});

/** A raise as a chart writes it; the types of XState want a set-up for the name of a delay. */
function later(type: string, delay: string | number, id?: string) {
  return raise({ type }, { delay: delay as number, ...(id === undefined ? {} : { id }) });
}

/** A chart that breaks no rule, open to be broken. */
function sample() {
  const actions: Record<string, () => void> = { knock: () => undefined };
  const guards: Record<string, () => boolean> = { isLocked: () => true };
  const delays: Record<string, () => number> = { patience: () => 5 };
  const arm = later('wait.ended', 'patience', 'wait');
  const disarm = cancel('wait');
  const states: Record<string, Record<string, unknown>> = {
    open: {
      description: 'Open until somebody shuts it.',
      tags: ['waiting'],
      entry: ['knock', arm],
      exit: disarm,
      on: {
        'door.shut': { target: 'shut', guard: 'isLocked' },
        'wait.ended': 'shut',
        'wait.renewed': { actions: [disarm, arm] },
      },
    },
    shut: { description: 'Shut for good; nothing follows.', tags: ['ended'], type: 'final' },
  };
  const config: Record<string, unknown> = {
    id: 'door',
    description: 'A door, as the lint likes it.',
    options: { maxIterations: 100 },
    context: () => ({ knocks: 0 }),
    initial: 'open',
    states,
  };
  const ignores: Ignored[] = [{ event: '*', states: ['shut'], why: 'The door is shut for good.' }];
  const on = states['open']!['on'] as Record<string, unknown>;
  return {
    config,
    states,
    open: states['open']!,
    on,
    actions,
    guards,
    delays,
    ignores,
    arm,
    disarm,
  };
}

type Sample = ReturnType<typeof sample>;

function lintOf(change: (door: Sample) => void): string[] {
  const door = sample();
  change(door);
  const { config, actions, guards, delays, ignores } = door;
  const machine = createMachine(config as never, { actions, guards, delays });
  return lint({ name: 'door', machine: machine, ignores });
}

describe('lint sees', () => {
  test('nothing wrong with a good chart', () => {
    expect(lintOf(() => undefined)).toEqual([]);
  });

  const mistakes: [string, (door: Sample) => void, RegExp][] = [
    ['an id that is not the name', ({ config }) => (config['id'] = 'gate'), /has the id gate/],
    ['a chart without words', ({ config }) => delete config['description'], /needs a description/],
    ['a loop that would hang', ({ config }) => delete config['options'], /maxIterations/],
    [
      'an unknown action',
      ({ open }) => (open['exit'] = ['ring', open['exit']]),
      /ring is not impl/,
    ],
    [
      'a nameless action',
      ({ on }) =>
        (on['door.shut'] = { target: 'shut', guard: 'isLocked', actions: () => undefined }),
      /\(a function\) is not implemented/,
    ],
    [
      'an unused action',
      ({ actions }) => (actions['ring'] = () => undefined),
      /ring is never used/,
    ],
    [
      'an unknown guard',
      ({ on }) => (on['door.kicked'] = { target: 'shut', guard: 'isWeak' }),
      /guard isWeak is not implemented/,
    ],
    [
      'a nameless guard',
      ({ on }) => (on['door.kicked'] = { target: 'shut', guard: () => true }),
      /guard \(a function\) is not implemented/,
    ],
    ['an unused guard', ({ guards }) => (guards['isWeak'] = () => true), /isWeak is never used/],
    ['an unused delay', ({ delays }) => (delays['nap'] = () => 1), /nap is never used/],
    [
      'an unknown delay',
      ({ open, arm }) =>
        (open['entry'] = ['knock', arm, later('nap.ended', 'nap', 'nap')]) &&
        (open['exit'] = [cancel('wait'), cancel('nap')]),
      /the delay nap is not the name/,
    ],
    [
      'a delay in numbers',
      ({ open, arm }) =>
        (open['entry'] = ['knock', arm, later('nap.ended', 5, 'nap')]) &&
        (open['exit'] = [cancel('wait'), cancel('nap')]),
      /the delay 5 is not the name/,
    ],
    ['an actor', ({ open }) => (open['invoke'] = { src: 'bell' }), /invokes an actor/],
    ['after', ({ open }) => (open['after'] = { patience: 'shut' }), /uses after/],
    [
      'always',
      ({ open }) => (open['always'] = { target: 'shut', guard: 'isLocked' }),
      /moves without an event/,
    ],
    ['a wildcard', ({ on }) => (on['*'] = 'shut'), /\* is no event/],
    ['an event without a subject', ({ on }) => (on['kick'] = 'shut'), /kick is no event/],
    [
      'a cancel of nothing',
      ({ open, disarm }) => (open['exit'] = [disarm, cancel('nap')]),
      /cancels nap, which nothing arms/,
    ],
    [
      'a timer without an id',
      ({ open, arm }) => (open['entry'] = ['knock', arm, later('nap.ended', 'patience')]),
      /raises nap\.ended later, but without an id/,
    ],
    [
      'a timer that outlives its state',
      ({ open, on }) => {
        delete open['exit'];
        delete on['wait.renewed'];
      },
      /wait is not cancelled when its state is left/,
    ],
    [
      'a timer that is armed twice',
      ({ on, arm }) => (on['wait.renewed'] = { actions: [arm] }),
      /arms wait again without cancelling/,
    ],
    ['a state without words', ({ open }) => delete open['description'], /open needs a description/],
    [
      'a state in half a sentence',
      ({ open }) => (open['description'] = 'Open'),
      /open needs a des/,
    ],
    ['an unknown tag', ({ open }) => (open['tags'] = ['ajar']), /tag ajar, which is none/],
    [
      'an end that is not final',
      ({ states, ignores }) => {
        states['shut'] = { description: 'Shut for good; nothing follows.' };
        ignores.pop();
      },
      /shut is an end, but not of type final/,
    ],
    ['a final state untagged', ({ states }) => delete states['shut']!['tags'], /go together/],
    [
      'an end of a part',
      ({ open }) => {
        open['initial'] = 'half';
        open['states'] = {
          half: { description: 'Neither open nor shut.', type: 'final', tags: ['ended'] },
        };
      },
      /open\.half ends a part/,
    ],
  ];

  test.each(mistakes)('%s', (_what, change, message) => {
    const errors = lintOf((door) => {
      change(door);
    });
    expect(errors).toEqual([expect.stringMatching(message)]);
  });

  test('one id for two timers', () => {
    const errors = lintOf(({ open, arm }) => {
      open['entry'] = ['knock', arm, later('nap.ended', 'patience', 'wait')];
    });
    expect(errors).toEqual(['one timer id for one event: wait wait.ended', expect.any(String)]);
  });

  const why = 'It does not matter here.';
  const entries: [string, Ignored, RegExp][] = [
    [
      'an event that does not exist',
      { event: 'door.sold', states: ['open'], why },
      /no such event/,
    ],
    ['a state that does not exist', { event: 'door.shut', states: ['ajar'], why }, /no state ajar/],
    ['an event that is handled', { event: 'wait.ended', states: ['open'], why }, /handles it/],
    ['every event in a state that goes on', { event: '*', states: ['open'], why }, /is no end/],
    ['a pair twice', { event: '*', states: ['shut'], why }, /twice/],
    ['no reason', { event: 'door.shut', states: ['open'], why: 'Because' }, /must be a sentence/],
  ];

  test.each(entries)('that an entry of the ignored names %s', (_what, entry, message) => {
    expect(lintOf(({ ignores }) => ignores.push(entry))).toEqual([expect.stringMatching(message)]);
  });

  test('that an event whose guard may refuse it may be listed', () => {
    const entry = { event: 'door.shut', states: ['open'], why };
    expect(lintOf(({ ignores }) => ignores.push(entry))).toEqual([]);
  });

  test.each([
    ['a bigint', 1n],
    ['a date', new Date(0)],
    ['a map', new Map()],
    ['something undefined', undefined],
  ])('%s in a context', (_what, value) => {
    const { config, actions, guards, delays } = sample();
    const machine = createMachine({ ...config, entry: assign({ value: () => value }) } as never, {
      actions,
      guards,
      delays,
    }) as unknown as AnyStateMachine;
    const [snapshot] = initialTransition(machine, undefined as never);
    const errors = lint({ name: 'door', machine, ignores: [] }, [snapshot]);
    expect(errors).toEqual(['the context in "open" is not JSON']);
  });
});
