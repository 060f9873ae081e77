/**
 * Every chart, driven down every way into and out of every state it can reach.
 *
 * The ways are found by exploring the pure machine and run on real actors. They must take every transition, end where
 * they were reckoned to end, and leave no timer behind. Any event that a state does not take must be listed as ignored.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { createMachine } from 'xstate';
import { eventsOf, nameOf, statesOf, transitionsOf } from '../../machines/diagrams/walk.ts';
import { CHARTS, type Chart } from '../../machines/index.ts';
import { CASES } from './cases.ts';
import {
  activeIn,
  type Explored,
  exploredFrom,
  needlessIn,
  runAll,
  unlistedIn,
} from './coverage.ts';
import { chartOf, recorderOf, transitionName } from './drive.ts';

describe.each(CHARTS)('paths of $name', (chart) => {
  let explored: Explored[];
  beforeAll(() => {
    explored = exploredFrom(chart);
  }, 60_000);

  test(`paths - ${chart.name} is fed with every event that it names, and with no other`, () => {
    const fed = new Set(CASES[chart.name].events.map(({ type }) => type));
    expect([...fed].toSorted()).toEqual(eventsOf(chart.machine).toSorted());
  });

  test(`paths - ${chart.name} takes every transition and goes where it was reckoned to go`, async () => {
    const recorder = recorderOf(chart.machine);
    const written = transitionsOf(chart.machine).map(transitionName);
    const taken = new Set<string>();
    for (const one of explored) {
      const run = await runAll(chart, recorder, one);
      expect(run.faults.slice(0, 5)).toEqual([]);
      expect(run.steps).toBeGreaterThanOrEqual(
        one.reached.flatMap(({ enabled }) => enabled).length,
      );
      for (const name of run.taken) taken.add(name);
    }
    const shown = written.filter((name) => taken.has(name));
    process.stdout.write(`${chart.name}: ${shown.length}/${written.length} transitions\n`);
    expect(written.filter((name) => !taken.has(name))).toEqual([]);
  }, 60_000);

  test(`paths - ${chart.name} handles or lists every event in every state`, () => {
    expect(unlistedIn(chart, explored)).toEqual([]);
  });

  test(`paths - ${chart.name} lists no event that is handled anyway`, () => {
    expect(needlessIn(chart, explored)).toEqual([]);
  });

  test(`paths - ${chart.name} can be in every one of its states`, () => {
    const snapshots = explored.flatMap(({ reached }) => reached.map(({ snapshot }) => snapshot));
    const seen = new Set(snapshots.flatMap(activeIn));
    const all = statesOf(chart.machine).map(nameOf);
    expect(all.filter((name) => !seen.has(name))).toEqual([]);
  });
});

describe('paths see', () => {
  const peer = chartOf('peer');

  test('an event that is neither handled nor listed', () => {
    const chart: Chart = { ...peer, ignores: peer.ignores.slice(1) };
    expect(unlistedIn(chart, exploredFrom(chart))).toEqual(['peer.announced in present']);
  });

  test('an entry of the ignored that nothing needs', () => {
    const entry = { event: 'delay.elapsed', states: ['withheld'], why: 'It is handled.' };
    const chart: Chart = { ...peer, ignores: [...peer.ignores, entry] };
    expect(needlessIn(chart, exploredFrom(chart))).toEqual(['delay.elapsed in withheld']);
  });

  test('a transition that no path takes', async () => {
    const chart: Chart = {
      ...peer,
      machine: peer.machine.provide({ guards: { hasNoDelay: () => false } }),
    };
    const { taken } = await runAll(chart, recorderOf(chart.machine), exploredFrom(chart)[0]!);
    const missing = transitionsOf(chart.machine)
      .map(transitionName)
      .filter((name) => !taken.has(name));
    expect(missing).toEqual(['present on peer.vanished [hasNoDelay] -> gone']);
  });

  test('a chart that goes elsewhere when it runs', async () => {
    const other = peer.machine.provide({ guards: { hasNoDelay: () => true } });
    const run = await runAll(peer, recorderOf(other), exploredFrom(peer)[0]!);
    expect(run.faults[0]).toMatch(/peer\.vanished: is .*"gone".*, not .*"withheld"/);
  });

  test('a timer that is left behind', async () => {
    const chart = withStates(peer, ({ withheld }) => {
      delete withheld!['exit'];
    });
    const run = await runAll(chart, recorderOf(chart.machine), exploredFrom(chart)[0]!);
    expect(run.faults[0]).toMatch(/the timers delay\.elapsed run in .*"(present|gone)"/);
  });

  test('a timer that is armed twice', async () => {
    const chart = withStates(chartOf('writing'), ({ settling }) => {
      const on = settling!['on'] as Record<string, { actions: unknown[] }>;
      on['batch.unanswered'] = { actions: on['batch.unanswered']!.actions.toSpliced(1, 1) };
    });
    const run = await runAll(chart, recorderOf(chart.machine), exploredFrom(chart)[0]!);
    expect(run.faults[0]).toMatch(/armed again and not cancelled/);
  });
});

type States = Record<string, Record<string, unknown>>;

/** The same chart with its states written differently. */
function withStates(chart: Chart, change: (states: States) => void): Chart {
  const { config, implementations } = chart.machine;
  const states: States = {};
  for (const [name, state] of Object.entries(config.states as States)) {
    states[name] = { ...state, on: { ...(state['on'] as object) } };
  }
  change(states);
  const machine = createMachine({ ...config, states } as never, implementations as never);
  return { ...chart, machine };
}
