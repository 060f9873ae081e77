/** Calls into the service: whatever it throws, now or as a promise, is told and goes no further. */
export function callOut(call: () => unknown, failed: (error: unknown) => void): void {
  try {
    const answer = call();
    if (isThenable(answer)) Promise.resolve(answer).then(undefined, failed);
  } catch (error) {
    failed(error);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { then?: unknown }).then === 'function'
  );
}
