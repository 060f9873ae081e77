/** Reads a chart's machine: its states, its transitions and the timers it arms, in the order they are declared. */
import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate';

/** The name of a state inside its chart: `held.owned`; the chart itself is the empty string. */
export function nameOf(node: AnyStateNode): string {
  return node.path.join('.');
}

/** Every state of a chart, outer before inner, without the chart itself. */
export function statesOf(machine: AnyStateMachine): AnyStateNode[] {
  const below = (node: AnyStateNode): AnyStateNode[] =>
    childrenOf(node).flatMap((child) => [child, ...below(child)]);
  return below(machine.root);
}

/** The states directly inside a state. */
export function childrenOf(node: AnyStateNode): AnyStateNode[] {
  return Object.values<AnyStateNode>(node.states).toSorted((a, b) => a.order - b.order);
}

/** Every transition of a chart; the candidates of one event in the order they are tried. */
export function transitionsOf(machine: AnyStateMachine): AnyTransitionDefinition[] {
  return [machine.root, ...statesOf(machine)].flatMap(ownTransitionsOf);
}

/** The transitions written in one state. */
export function ownTransitionsOf(node: AnyStateNode): AnyTransitionDefinition[] {
  return [...(node.transitions as Map<string, AnyTransitionDefinition[]>).values()].flat();
}

/** Every event type that some transition of the chart names. */
export function eventsOf(machine: AnyStateMachine): string[] {
  return [...new Set(transitionsOf(machine).map(({ eventType }) => eventType))];
}

/** One action as it is written: a name, a name with parameters, or a built-in of XState. */
export interface Step {
  /** The name, or the type of a built-in such as `xstate.raise`; undefined for a bare function. */
  readonly name: string | undefined;
  readonly isBuiltIn: boolean;
  /** Of a raise. */
  readonly event: string | undefined;
  readonly delay: unknown;
  /** Of a raise or a cancel. */
  readonly timer: string | undefined;
}

interface BuiltIn {
  readonly type?: string;
  readonly event?: { readonly type?: string };
  readonly delay?: unknown;
  readonly id?: string;
  readonly sendId?: string;
}

/** Reads actions; a named action that stands for a built-in is read as that built-in. */
export function stepsOf(machine: AnyStateMachine, actions: readonly unknown[]): Step[] {
  return actions.map((action) => {
    const written = action as string | BuiltIn;
    const name = typeof written === 'string' ? written : written.type;
    const named: unknown = name === undefined ? undefined : machine.implementations.actions[name];
    const what = ((named as BuiltIn | undefined)?.type === undefined ? written : named) as BuiltIn;
    return {
      name,
      isBuiltIn: what.type?.startsWith('xstate.') === true,
      event: what.event?.type,
      delay: what.delay,
      timer: what.id ?? what.sendId,
    };
  });
}

/** Every action list of a chart, with the state it is written in. */
function stepListsOf(
  machine: AnyStateMachine,
): { readonly node: AnyStateNode; readonly steps: Step[] }[] {
  return [machine.root, ...statesOf(machine)].flatMap((node) =>
    [
      node.entry,
      node.exit,
      ...ownTransitionsOf(node).map(({ actions }) => actions as readonly unknown[]),
    ].map((actions) => ({ node, steps: stepsOf(machine, actions) })),
  );
}

/** The events that the chart's own timers raise. */
export function timerEventsOf(machine: AnyStateMachine): Set<string> {
  return new Set(
    stepListsOf(machine)
      .flatMap(({ steps }) => steps)
      .filter(({ name, delay }) => name === 'xstate.raise' && delay !== undefined)
      .flatMap(({ event }) => event ?? []),
  );
}

/** The name of a guard, or undefined where none is written. */
export function guardOf(transition: AnyTransitionDefinition): string | undefined {
  const guard = transition.guard as string | { readonly type?: string } | undefined;
  return typeof guard === 'string' ? guard : guard?.type;
}
