/**
 * What neither the compiler nor XState says about a chart, as sentences. Empty for a good one.
 *
 * XState accepts an unknown delay (and fires at once), an unknown action (and does nothing) and a cancel of a timer that
 * nobody armed. A timer that is armed again under the same id without a cancel leaves the old one running for good.
 */
import { isDeepStrictEqual } from 'node:util';
import type {
  AnyMachineSnapshot,
  AnyStateMachine,
  AnyStateNode,
  AnyTransitionDefinition,
} from 'xstate';
import {
  eventsOf,
  guardOf,
  nameOf,
  ownTransitionsOf,
  statesOf,
  type Step,
  stepsOf,
  transitionsOf,
} from '../../machines/diagrams/walk.ts';
import type { Ignored, Tag } from '../../machines/index.ts';

export interface Lintable {
  readonly name: string;
  readonly machine: AnyStateMachine;
  readonly ignores: readonly Ignored[];
}

/** Every tag; the compiler sees to it that none is missing. */
const TAGS: Readonly<Record<Tag, true>> = {
  held: true,
  wanted: true,
  mayHaveLanded: true,
  mayCommit: true,
  handingBack: true,
  waiting: true,
  writing: true,
  leads: true,
  ended: true,
  alert: true,
};

const BUILT_INS = ['xstate.assign', 'xstate.raise', 'xstate.cancel'];

/** All rules. `reached` are snapshots to look for values in that JSON would lose. */
export function lint(chart: Lintable, reached: readonly AnyMachineSnapshot[] = []): string[] {
  return [
    ...chartErrors(chart),
    ...nameErrors(chart),
    ...eventErrors(chart),
    ...timerErrors(chart),
    ...stateErrors(chart),
    ...ignoreErrors(chart),
    ...contextErrors(reached),
  ];
}

function chartErrors({ name, machine }: Lintable): string[] {
  return [
    ...(machine.id === name ? [] : [`the machine of ${name} has the id ${machine.id}`]),
    ...(isSentence(machine.root.description) ? [] : [`the chart needs a description: a sentence`]),
    ...(Number.isFinite(machine.options?.maxIterations)
      ? []
      : ['options.maxIterations is not set: a loop would hang instead of throwing']),
  ];
}

/** Where an action list stands, for messages and for where a timer that it arms is at home. */
interface StepList {
  readonly at: string;
  /** The state that is entered, or stays, when the list runs; undefined for an exit. */
  readonly home: AnyStateNode | undefined;
  readonly isInternal: boolean;
  readonly steps: readonly Step[];
}

function listsOf(machine: AnyStateMachine): StepList[] {
  return allNodes(machine).flatMap((node) => {
    const at = nameOf(node) || machine.id;
    const entry = { at: `${at} entry`, home: node, isInternal: false, actions: node.entry };
    const exit = { at: `${at} exit`, home: undefined, isInternal: false, actions: node.exit };
    const transitions = ownTransitionsOf(node).map((transition) => ({
      at: `${at} on ${transition.eventType}`,
      home: targetOf(transition) ?? node,
      isInternal: targetOf(transition) === undefined,
      actions: transition.actions,
    }));
    return [entry, exit, ...transitions].map(({ actions, ...list }) => ({
      ...list,
      steps: stepsOf(machine, actions),
    }));
  });
}

function allNodes(machine: AnyStateMachine): AnyStateNode[] {
  return [machine.root, ...statesOf(machine)];
}

function targetOf(transition: AnyTransitionDefinition): AnyStateNode | undefined {
  return (transition.target as AnyStateNode[] | undefined)?.[0];
}

/** Everything used is implemented, and everything implemented is used. */
function nameErrors({ machine }: Lintable): string[] {
  const lists = listsOf(machine);
  const steps = lists.flatMap((list) => list.steps.map((step) => ({ ...step, at: list.at })));
  const { actions, guards, delays } = machine.implementations;
  const isKnown = (name: string | undefined): boolean => name !== undefined && name in actions;
  const bare = steps
    .filter(({ name }) => !isKnown(name) && !BUILT_INS.includes(name ?? ''))
    .map(({ at, name }) => `${at}: the action ${name ?? '(a function)'} is not implemented`);
  const guardsUsed = transitionsOf(machine).filter(({ guard }) => guard !== undefined);
  const badGuards = guardsUsed
    .filter((transition) => !((guardOf(transition) ?? '') in guards))
    .map((transition) => {
      const at = `${nameOf(transition.source)} on ${transition.eventType}`;
      return `${at}: the guard ${guardOf(transition) ?? '(a function)'} is not implemented`;
    });
  const armed = steps.filter(({ delay }) => delay !== undefined);
  const badDelays = armed
    .filter(({ delay }) => typeof delay !== 'string' || !(delay in delays))
    .map(({ at, delay }) => `${at}: the delay ${String(delay)} is not the name of one`);
  const unused = (kind: string, names: object, used: readonly unknown[]): string[] =>
    Object.keys(names)
      .filter((name) => !used.includes(name))
      .map((name) => `the ${kind} ${name} is never used`);
  return [
    ...bare,
    ...badGuards,
    ...badDelays,
    ...unused(
      'action',
      actions,
      steps.map(({ name }) => name),
    ),
    ...unused('guard', guards, guardsUsed.map(guardOf)),
    ...unused(
      'delay',
      delays,
      armed.map(({ delay }) => delay),
    ),
  ];
}

/** Nothing moves without an event that has a name: no actors, no `after`, no `always`, no wildcard. */
function eventErrors({ machine }: Lintable): string[] {
  const nodes = allNodes(machine).flatMap((node) => {
    const at = nameOf(node) || machine.id;
    return [
      ...(node.invoke.length > 0 ? [`${at}: invokes an actor`] : []),
      ...(node.after.length > 0 ? [`${at}: uses after`] : []),
      ...((node.always ?? []).length > 0 ? [`${at}: moves without an event (always)`] : []),
    ];
  });
  const events = transitionsOf(machine)
    .filter(({ eventType }) => !/^[a-z]+\.[a-z]+$/.test(eventType))
    .filter(({ eventType }) => !eventType.startsWith('xstate.after.'))
    .map(({ source, eventType }) => `${nameOf(source)}: ${eventType} is no event of a chart`);
  return [...nodes, ...events];
}

/** Timers have ids, are cancelled under ids that exist, and do not outlive the state they belong to. */
function timerErrors({ machine }: Lintable): string[] {
  const lists = listsOf(machine);
  const all = lists.flatMap(({ steps }) => steps);
  const raises = all.filter(({ name, delay }) => name === 'xstate.raise' && delay !== undefined);
  const ids = new Set(raises.map(({ timer }) => timer));
  const cancels = lists.flatMap(({ at, steps }) =>
    steps
      .filter(({ name, timer }) => name === 'xstate.cancel' && !ids.has(timer))
      .map(({ timer }) => `${at}: cancels ${timer}, which nothing arms`),
  );
  const pairs = [...new Set(raises.map(({ timer, event }) => `${timer} ${event}`))];
  const doubled = pairs
    .filter((pair) => pairs.some((other) => other !== pair && shareAWord(pair, other)))
    .map((pair) => `one timer id for one event: ${pair}`);
  return [...cancels, ...doubled, ...lists.flatMap((list) => armErrors(machine, list))];
}

function shareAWord(a: string, b: string): boolean {
  const [timer, event] = a.split(' ');
  return b.split(' ')[0] === timer || b.split(' ')[1] === event;
}

function armErrors(machine: AnyStateMachine, { at, home, isInternal, steps }: StepList): string[] {
  return steps.flatMap((step, index) => {
    if (step.name !== 'xstate.raise' || step.delay === undefined) return [];
    const { timer, event } = step;
    if (timer === undefined) return [`${at}: raises ${event} later, but without an id`];
    const cancels = (one: Step): boolean => one.name === 'xstate.cancel' && one.timer === timer;
    const isLeft = home !== undefined && cancelsOnExit(machine, home, cancels);
    const isCancelledFirst = steps.slice(0, index).some(cancels);
    return [
      ...(isLeft ? [] : [`${at}: the timer ${timer} is not cancelled when its state is left`]),
      ...(isInternal && !isCancelledFirst
        ? [`${at}: arms ${timer} again without cancelling the one that runs`]
        : []),
    ];
  });
}

function cancelsOnExit(
  machine: AnyStateMachine,
  node: AnyStateNode,
  cancels: (step: Step) => boolean,
): boolean {
  if (stepsOf(machine, node.exit).some(cancels)) return true;
  return node.parent !== undefined && cancelsOnExit(machine, node.parent, cancels);
}

function stateErrors({ machine }: Lintable): string[] {
  return statesOf(machine).flatMap((node) => {
    const name = nameOf(node);
    const isFinal = node.type === 'final';
    const isTop = node.parent === machine.root;
    const isDead = isTop && transitionsBelow(node).length === 0;
    return [
      ...(isSentence(node.description) ? [] : [`${name} needs a description: a sentence`]),
      ...node.tags
        .filter((tag) => !Object.hasOwn(TAGS, tag))
        .map((tag) => `${name} has the tag ${tag}, which is none`),
      ...(isDead && !isFinal ? [`${name} is an end, but not of type final`] : []),
      ...(isFinal && !isTop ? [`${name} ends a part of the chart only`] : []),
      ...(isFinal === node.tags.includes('ended')
        ? []
        : [`${name}: the tag ended and the type final go together`]),
    ];
  });
}

function transitionsBelow(node: AnyStateNode): AnyTransitionDefinition[] {
  const children = Object.values<AnyStateNode>(node.states);
  return [...ownTransitionsOf(node), ...children.flatMap(transitionsBelow)];
}

function isSentence(text: string | undefined): boolean {
  return text !== undefined && text.length >= 15 && /^[A-Z].*[^.\s]\.$/.test(text);
}

/** The table of ignored events names what exists, says each thing once, and hides nothing that is handled. */
function ignoreErrors({ machine, ignores }: Lintable): string[] {
  const events = new Set(eventsOf(machine));
  const nodes = new Map(statesOf(machine).map((node) => [nameOf(node), node]));
  const seen = new Set<string>();
  return ignores.flatMap(({ event, states, why }) => {
    const isAny = event === '*';
    const entry = `ignores ${event}`;
    const where = states.flatMap((state) => {
      const node = nodes.get(state);
      const isTwice = seen.has(`${event} ${state}`);
      seen.add(`${event} ${state}`);
      if (node === undefined) return [`${entry}: there is no state ${state}`];
      return [
        ...(isTwice ? [`${entry} in ${state}: twice`] : []),
        ...(isAny && node.type !== 'final' ? [`${entry} in ${state}: which is no end`] : []),
        ...(isAlwaysHandled(node, event) ? [`${entry} in ${state}: which handles it`] : []),
      ];
    });
    return [
      ...(isAny || events.has(event) ? [] : [`${entry}: there is no such event`]),
      ...(/^[A-Z].*[^.\s]\.$/.test(why) ? [] : [`${entry}: why must be a sentence`]),
      ...where,
    ];
  });
}

/** Whether the state, or one around it, takes the event whatever its guards say. */
function isAlwaysHandled(node: AnyStateNode, event: string): boolean {
  const own = (node.transitions as Map<string, AnyTransitionDefinition[]>).get(event) ?? [];
  if (own.some(({ guard }) => guard === undefined)) return true;
  return node.parent !== undefined && isAlwaysHandled(node.parent, event);
}

function contextErrors(reached: readonly AnyMachineSnapshot[]): string[] {
  const errors = reached.flatMap(({ context, value }) =>
    isJsonSafe(context) ? [] : [`the context in ${JSON.stringify(value)} is not JSON`],
  );
  return [...new Set(errors)];
}

function isJsonSafe(context: unknown): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(JSON.stringify(context)), context);
  } catch {
    return false;
  }
}
