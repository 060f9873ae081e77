/**
 * Every chart inside the real worker: paths generated from the chart, run against the part that runs it, over a store, with
 * the outside world scripted so that each event really happens.
 */
import { describe, expect, test } from '@jest/globals';
import { eventsOf, nameOf, statesOf, transitionsOf } from '../../../machines/diagrams/walk.ts';
import type { ChartName } from '../../../machines/index.ts';
import { chartOf, transitionName } from '../drive.ts';
import { PARTS } from './parts/index.ts';
import { nameOfPath, pathsOf, walk } from './walk.ts';

describe.each(Object.keys(PARTS) as ChartName[])('real paths of %s', (name) => {
  const { machine } = chartOf(name);
  const routes = PARTS[name].map((part) => ({ part, paths: pathsOf(part) }));
  const events = new Set(routes.flatMap(({ paths }) => paths.flat()).map(({ type }) => type));

  test(`real paths - ${name} has a way to make each of its events happen`, () => {
    expect([...events].toSorted()).toEqual(eventsOf(machine).toSorted());
    for (const { part } of routes) {
      const missing = [...events].filter((type) => part.executors[type] === undefined);
      expect(missing).toEqual([]);
      const needless = Object.keys(part.executors).filter((type) => !events.has(type));
      expect(needless).toEqual([]);
    }
  });

  test(`real paths - ${name} promises something in each of its states`, () => {
    const states = statesOf(machine).map(nameOf);
    for (const { part } of routes) {
      const promised = Object.keys(part.promises);
      expect(promised.filter((state) => !states.includes(state))).toEqual([]);
      const isPromised = (state: string): boolean =>
        promised.some((one) => one === state || one.startsWith(`${state}.`));
      expect(states.filter((state) => !isPromised(state))).toEqual([]);
    }
  });

  test(`real paths - ${name} takes every transition in a running worker`, async () => {
    const written = transitionsOf(machine).map(transitionName);
    const taken = new Set<string>();
    const faults: string[] = [];
    let steps = 0;
    for (const { part, paths } of routes) {
      for (const path of paths) {
        const walked = await walk(part, path);
        steps += walked.steps;
        for (const one of walked.taken) taken.add(one);
        if (walked.fault !== null) faults.push(`${nameOfPath(path)}\n   ${walked.fault}`);
      }
    }
    for (const { part } of routes) {
      for (const { transition, path, event } of part.unreachable ?? []) {
        // Whatever a path brings about is no exception any more.
        expect(taken).not.toContain(transition);
        const walked = await walk(part, path, { injected: event });
        if (walked.fault !== null) faults.push(walked.fault);
        for (const one of walked.taken) taken.add(one);
      }
    }
    const shown = written.filter((one) => taken.has(one));
    process.stdout.write(
      `${name}: ${shown.length}/${written.length} transitions in a running worker (${steps} steps)\n`,
    );
    expect(faults.slice(0, 12)).toEqual([]);
    expect(written.filter((one) => !taken.has(one))).toEqual([]);
  }, 120_000);
});
