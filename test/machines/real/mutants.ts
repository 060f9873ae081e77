/** Charts with one deliberate mistake each: what the generated paths have to notice. */
import { type AnyStateMachine, type AnyStateNode, createMachine } from 'xstate';
import { nameOf, ownTransitionsOf, statesOf } from '../../../machines/diagrams/walk.ts';
import { chartOf, transitionName } from '../drive.ts';
import type { ChartName } from '../../../machines/index.ts';
import type { Replace } from './chart-probe.ts';

/** One candidate of one event, as it is written. */
interface Candidate {
  target?: string;
  guard?: unknown;
  actions?: unknown[];
}

interface StateConfig {
  states?: Record<string, StateConfig>;
  on?: Record<string, Candidate[]>;
  entry?: unknown[];
  exit?: unknown[];
}

export interface Mutant {
  readonly name: string;
  /** Only a path that takes one of these can show it; any path can when there is none. */
  readonly transitions: readonly string[];
  readonly replace: Replace;
}

/** Every mistake of one transition: it is missing, leads elsewhere, hangs on the contrary, or leaves out an action. */
export function mutantsOf(name: ChartName): Mutant[] {
  const { machine } = chartOf(name);
  return [...transitionMutants(name, machine), ...stateMutants(name, machine)];
}

function transitionMutants(name: ChartName, machine: AnyStateMachine): Mutant[] {
  return statesOf(machine).flatMap((node) => {
    const byEvent = new Map<string, number>();
    return ownTransitionsOf(node).flatMap((transition) => {
      const { eventType: event } = transition;
      const index = byEvent.get(event) ?? 0;
      byEvent.set(event, index + 1);
      const mutant = (what: string, change: (all: Candidate[]) => void): Mutant => ({
        name: `${transitionName(transition)}: ${what}`,
        transitions: [transitionName(transition)],
        replace: replacing(name, (states) => {
          change(stateIn(states, node).on![event]!);
        }),
      });
      const written = candidateAt(machine, node, event, index);
      const elsewhere = elsewhereOf(machine, node, written.target);
      const mutants = [
        mutant('is missing', (all) => void all.splice(index, 1)),
        mutant(`leads to ${elsewhere}`, (all) => (all[index]!.target = elsewhere)),
      ];
      if (written.guard !== undefined) {
        mutants.push(
          mutant('hangs on the contrary', (all) => {
            const { guard } = all[index]!;
            all[index]!.guard = contrary(guard);
          }),
        );
      }
      for (const [place, action] of (written.actions ?? []).entries()) {
        mutants.push(
          mutant(`leaves out ${actionName(action, place)}`, (all) => {
            void all[index]!.actions!.splice(place, 1);
          }),
        );
      }
      return mutants;
    });
  });
}

/** Actions on the way into or out of a state, left out. */
function stateMutants(name: ChartName, machine: AnyStateMachine): Mutant[] {
  return statesOf(machine).flatMap((node) =>
    (['entry', 'exit'] as const).flatMap((side) =>
      (configAt(machine, node)[side] ?? []).map((action, place) => ({
        name: `${nameOf(node)}: its ${side} leaves out ${actionName(action, place)}`,
        transitions: passing(machine, node, side),
        replace: replacing(name, (states) => {
          void stateIn(states, node)[side]!.splice(place, 1);
        }),
      })),
    ),
  );
}

/** Transitions that enter or leave a state. */
function passing(machine: AnyStateMachine, node: AnyStateNode, side: 'entry' | 'exit'): string[] {
  return statesOf(machine)
    .flatMap(ownTransitionsOf)
    .filter((transition) => {
      const target = (transition.target as AnyStateNode[] | undefined)?.[0];
      return side === 'entry'
        ? target === node
        : isWithin(node, transition.source) && target !== undefined;
    })
    .map(transitionName);
}

function isWithin(node: AnyStateNode, outer: AnyStateNode): boolean {
  return node === outer || (node.parent !== undefined && isWithin(node.parent, outer));
}

/** Another state beside the source, or the first one of the chart. */
function elsewhereOf(machine: AnyStateMachine, node: AnyStateNode, target?: string): string {
  const there = target?.split('.').at(-1);
  const siblings = Object.keys(node.parent!.states).filter(
    (one) => one !== node.key && one !== there,
  );
  return siblings.at(-1) ?? `#${machine.id}.${Object.keys(machine.states)[0]}`;
}

function contrary(guard: unknown): unknown {
  // A guard with parameters is told them; of the others the opposite is asked.
  return { type: 'contrary', params: { of: guard } };
}

function actionName(action: unknown, place: number): string {
  if (typeof action === 'string') return action;
  const { type } = action as { type?: string };
  return `${type ?? 'an action'} at ${place}`;
}

/** Runs the same chart with its states written differently; the effects stay those of the worker. */
function replacing(
  name: ChartName,
  change: (states: Record<string, StateConfig>) => void,
): Replace {
  return (chart, machine) => {
    if (chart !== name) return machine;
    const states = statesConfig(machine);
    change(states);
    const { implementations } = machine;
    const guards = { ...implementations.guards, contrary: contraryOf(implementations.guards) };
    return createMachine(
      { ...machine.config, states } as never,
      { ...implementations, guards } as never,
    );
  };
}

type Guard = (args: unknown, params: unknown) => boolean;

function contraryOf(guards: Readonly<Record<string, unknown>>): Guard {
  return (args, params) => {
    const { of } = params as { of: string | { type: string; params: unknown } };
    const type = typeof of === 'string' ? of : of.type;
    const given = typeof of === 'string' ? undefined : of.params;
    const inner = typeof given === 'function' ? (given as (all: unknown) => unknown)(args) : given;
    return !(guards[type] as Guard)(args, inner);
  };
}

function statesConfig(machine: AnyStateMachine): Record<string, StateConfig> {
  return copied(machine.config.states);
}

/** States as they are written, copied, with every list of candidates and of actions written out. */
function copied(states: unknown): Record<string, StateConfig> {
  const all = Object.entries(states as Record<string, Record<string, unknown>>);
  return Object.fromEntries(
    all.map(([name, state]) => {
      const on = Object.entries((state['on'] ?? {}) as Record<string, unknown>);
      const copy: StateConfig = {
        ...state,
        on: Object.fromEntries(on.map(([event, written]) => [event, candidates(written)])),
      };
      if (state['entry'] !== undefined) copy.entry = list(state['entry']);
      if (state['exit'] !== undefined) copy.exit = list(state['exit']);
      if (state['states'] !== undefined) copy.states = copied(state['states']);
      return [name, copy];
    }),
  );
}

function candidates(written: unknown): Candidate[] {
  return list(written).map((one) => {
    if (typeof one === 'string') return { target: one };
    const candidate = { ...(one as Candidate) };
    if (candidate.actions !== undefined) candidate.actions = list(candidate.actions);
    return candidate;
  });
}

function list(written: unknown): unknown[] {
  return Array.isArray(written) ? [...(written as unknown[])] : [written];
}

function stateIn(states: Record<string, StateConfig>, node: AnyStateNode): StateConfig {
  const [first = '', ...rest] = node.path;
  return rest.reduce((state, name) => state.states![name]!, states[first]!);
}

function configAt(machine: AnyStateMachine, node: AnyStateNode): StateConfig {
  return stateIn(statesConfig(machine), node);
}

function candidateAt(
  machine: AnyStateMachine,
  node: AnyStateNode,
  event: string,
  index: number,
): Candidate {
  return configAt(machine, node).on![event]![index]!;
}
