/**
 * A chart as it is drawn: boxes, arrows and what stands on them, without places.
 *
 * Complete: every transition of the machine is a line on an arrow, a line inside its own state, or a line on an arrow
 * that leaves a container or the box "in every state" and names the states it leaves out.
 */
import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate';
import type { Chart, Tag } from '../index.ts';
import { childrenOf, guardOf, nameOf, ownTransitionsOf, timerEventsOf } from './walk.ts';

/** What a state's colour says. */
export type Kind = 'normal' | 'waiting' | 'handingBack' | 'writing' | 'alert' | 'ended' | 'mishap';

/** One transition as text. */
export interface Line {
  readonly event: string;
  readonly guard: string | undefined;
  /** States of the arrow's source in which this transition does not exist. */
  readonly except: readonly string[];
  /** Raised by a timer of the chart itself. */
  readonly isTimer: boolean;
}

export interface Box {
  /** `held.owned`; unique in the chart. */
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly kind: Kind;
  readonly isInitial: boolean;
  /** One of several that are active at once. */
  readonly isRegion: boolean;
  /** Transitions that stay in this state. */
  readonly own: readonly Line[];
  readonly children: readonly Box[];
}

export interface Arrow {
  readonly from: string;
  readonly to: string;
  readonly lines: readonly Line[];
  /** Runs against the order of declaration: laid out from `to` to `from`, with its head at the start. */
  readonly isBack: boolean;
}

export interface Picture {
  readonly name: string;
  readonly description: string;
  readonly boxes: readonly Box[];
  readonly arrows: readonly Arrow[];
  /** Whether some arrow leaves the box that stands for every state. */
  readonly hasEverywhere: boolean;
}

/** The source of arrows that leave (nearly) every state of the chart. */
export const EVERYWHERE = '*';

/** From so many siblings on, transitions that all do the same are drawn once. */
const SHARED_MIN = 4;
/** The same, when the arrows would leave the container of the siblings. */
const SHARED_OUTWARD_MIN = 3;

/** One transition on its way to becoming a line of an arrow. */
interface Flight {
  readonly source: AnyStateNode;
  readonly target: AnyStateNode;
  readonly line: Line;
}

export function pictureOf(chart: Chart): Picture {
  const { root } = chart.machine;
  const flights = sharedOf(flightsOf(chart.machine), root);
  const arrows: Arrow[] = [];
  for (const { source, target, line } of flights) {
    const from = source === root ? EVERYWHERE : nameOf(source);
    const to = nameOf(target);
    const known = arrows.findIndex((arrow) => arrow.from === from && arrow.to === to);
    const lines = [...(arrows[known]?.lines ?? []), line];
    const isBack = source !== root && isBefore(target, source);
    arrows.splice(known < 0 ? arrows.length : known, 1, { from, to, lines, isBack });
  }
  return {
    name: chart.name,
    description: chart.machine.root.description ?? '',
    boxes: childrenOf(root).map((node) => boxOf(chart.machine, node)),
    arrows,
    hasEverywhere: arrows.some(({ from }) => from === EVERYWHERE),
  };
}

/** Every box, outer before inner. */
export function allBoxes(boxes: readonly Box[]): Box[] {
  return boxes.flatMap((box) => [box, ...allBoxes(box.children)]);
}

function boxOf(machine: AnyStateMachine, node: AnyStateNode): Box {
  const parent = node.parent!;
  const tags = node.tags as Tag[];
  return {
    name: nameOf(node),
    title: node.key,
    description: node.description ?? '',
    tags,
    kind: kindOf(node.type, tags),
    isInitial: parent.type === 'compound' && parent.initial.target.includes(node),
    isRegion: parent.type === 'parallel',
    own: stayingOf(machine, node),
    children: childrenOf(node).map((child) => boxOf(machine, child)),
  };
}

function kindOf(type: string, tags: readonly Tag[]): Kind {
  const has = (tag: Tag): boolean => tags.includes(tag);
  if (type === 'final') return has('alert') ? 'mishap' : 'ended';
  if (has('alert')) return 'alert';
  if (has('writing')) return 'writing';
  if (has('handingBack')) return 'handingBack';
  return has('waiting') ? 'waiting' : 'normal';
}

function linesOf(
  machine: AnyStateMachine,
  node: AnyStateNode,
): { readonly line: Line; readonly transition: AnyTransitionDefinition }[] {
  const timers = timerEventsOf(machine);
  return ownTransitionsOf(node).map((transition) => {
    const candidates = node.transitions.get(transition.eventType)!;
    const isFallback = candidates.length > 1 && guardOf(transition) === undefined;
    const guard = isFallback ? 'else' : guardOf(transition);
    const event = transition.eventType;
    return { transition, line: { event, guard, except: [], isTimer: timers.has(event) } };
  });
}

function isStaying(node: AnyStateNode, { target }: AnyTransitionDefinition): boolean {
  return target === undefined || target.length === 0 || target[0] === node;
}

function stayingOf(machine: AnyStateMachine, node: AnyStateNode): Line[] {
  return linesOf(machine, node)
    .filter(({ transition }) => isStaying(node, transition))
    .map(({ line }) => line);
}

function flightsOf(machine: AnyStateMachine): Flight[] {
  const below = (node: AnyStateNode): AnyStateNode[] => [
    node,
    ...childrenOf(node).flatMap((child) => below(child)),
  ];
  return below(machine.root).flatMap((source) =>
    linesOf(machine, source)
      .filter(({ transition }) => !isStaying(source, transition))
      .map(({ line, transition }) => {
        const targets = transition.target as AnyStateNode[];
        if (targets.length !== 1 || isInside(targets[0]!, source)) {
          const what = `${nameOf(source) || machine.id} on ${line.event}`;
          throw new Error(`${what}: no drawing for several targets or a target inside its source`);
        }
        return { source, target: targets[0]!, line };
      }),
  );
}

/** Replaces transitions that (nearly) all states of a container share by one that leaves the container. */
function sharedOf(flights: readonly Flight[], container: AnyStateNode): Flight[] {
  const children = childrenOf(container).filter(({ type }) => type !== 'final');
  const found = flights.filter(({ source }) => source.parent === container);
  const sameAs = (a: Flight) => (b: Flight) =>
    a.target === b.target && a.line.event === b.line.event && a.line.guard === b.line.guard;
  const shared = found.flatMap((first, index) => {
    const same = found.filter(sameAs(first));
    if (found.findIndex(sameAs(first)) !== index) return [];
    const missing = children.filter((child) => !same.some(({ source }) => source === child));
    const least = isInside(first.target, container) ? SHARED_MIN : SHARED_OUTWARD_MIN;
    const isRoot = container.parent === undefined;
    if (same.length < least || missing.length > 1) return [];
    if (!isRoot && isInside(first.target, container)) return [];
    const line: Line = { ...first.line, except: missing.map(({ key }) => key) };
    return [{ source: container, target: first.target, line }];
  });
  const left = flights.filter(
    (flight) => flight.source.parent !== container || !shared.some((one) => sameAs(one)(flight)),
  );
  return children.reduce((all, child) => sharedOf(all, child), [...left, ...shared]);
}

function isInside(node: AnyStateNode, container: AnyStateNode): boolean {
  return (
    node.parent !== undefined && (node.parent === container || isInside(node.parent, container))
  );
}

/** Whether `a` is declared before `b`, compared where their paths part. */
function isBefore(a: AnyStateNode, b: AnyStateNode): boolean {
  return a.order < b.order;
}
