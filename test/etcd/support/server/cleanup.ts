/** Ends what a test file started, also when it fails. */

type Undo = () => Promise<void>;

const undos = new Set<Undo>();

/** Runs `undo` at the end of the test file, unless the returned function is called before. */
export function atEnd(undo: Undo): () => void {
  undos.add(undo);
  return () => void undos.delete(undo);
}

/** Ends everything that still runs, newest first. */
async function endAll(): Promise<void> {
  for (const undo of [...undos].reverse()) {
    undos.delete(undo);
    await undo();
  }
}

// Absent outside jest, where the caller ends what it started and the watchdogs do the rest.
(globalThis as { afterAll?: (hook: Undo) => void }).afterAll?.(endAll);
