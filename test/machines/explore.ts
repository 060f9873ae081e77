/**
 * Finds every state a chart can be in, and the shortest way to each, without running it.
 *
 * Two snapshots are the same state if their values and contexts agree, but for the size of times and delays: within one
 * run of a chart only whether they are set can decide anything.
 */
import {
  type AnyEventObject,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyTransitionDefinition,
  initialTransition,
  transition,
} from 'xstate';

export interface Reached {
  readonly snapshot: AnyMachineSnapshot;
  /** The shortest way here. */
  readonly path: readonly AnyEventObject[];
  /** The events that something happens on here. */
  readonly enabled: readonly AnyEventObject[];
  /** The events that nothing happens on here. */
  readonly unhandled: readonly AnyEventObject[];
}

/** Far above any chart; an unbounded context fails here instead of filling the memory. */
const STATES_MAX = 5_000;

export function explore(
  machine: AnyStateMachine,
  input: unknown,
  events: readonly AnyEventObject[],
): Reached[] {
  const [initial] = initialTransition(machine, input as never);
  const reached: Reached[] = [];
  const known = new Set([keyOf(initial)]);
  const queue: Pick<Reached, 'snapshot' | 'path'>[] = [{ snapshot: initial, path: [] }];
  for (let found = queue.shift(); found !== undefined; found = queue.shift()) {
    const { snapshot, path } = found;
    const isEnabled = (event: AnyEventObject): boolean =>
      enabledIn(machine, snapshot, event).length > 0;
    const enabled = events.filter(isEnabled);
    reached.push({ snapshot, path, enabled, unhandled: events.filter((one) => !isEnabled(one)) });
    for (const event of enabled) {
      const [next] = transition(machine, snapshot, event);
      const key = keyOf(next);
      if (known.has(key)) continue;
      known.add(key);
      if (known.size > STATES_MAX) throw new Error(`more than ${STATES_MAX} states: ${key}`);
      queue.push({ snapshot: next, path: [...path, event] });
    }
  }
  return reached;
}

/** The transitions that an event takes; none once the chart has ended. */
function enabledIn(
  machine: AnyStateMachine,
  snapshot: AnyMachineSnapshot,
  event: AnyEventObject,
): AnyTransitionDefinition[] {
  if (snapshot.status !== 'active') return [];
  return machine.getTransitionData(snapshot, event);
}

/** What tells two states apart. */
export function keyOf({ value, context }: AnyMachineSnapshot): string {
  return JSON.stringify([value, context], (name, field: unknown) =>
    typeof field === 'number' && name.endsWith('Ms') ? 'set' : field,
  );
}
