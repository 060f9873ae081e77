/**
 * Every line a worker logs, by its stable name: at which level, and what it means. The types of the log hold to it, and LOG.md
 * beside this file is made from it.
 *
 * Levels by what a person must do: `error`, look now; `warn`, look when there is time, what to do is in the line; `info`, the
 * life of a worker; `debug`, the life of its splits.
 */
import type { Logger } from '../../base/logger.ts';

/** A level of a log line. */
export type LogLevel = keyof Logger;

/** By name: the level, and when it is logged. */
export const LOG_EVENTS = {
  'worker.starting': ['info', 'It was started; `config` is what it runs with.'],
  'worker.present': ['info', 'It has joined the fleet.'],
  'worker.leaving': ['info', 'It begins to leave; `reason` says why.'],
  'worker.left': ['info', 'It has left; the fields are those of the stop report.'],
  'worker.failed': ['error', 'An error that no retry heals ends it; `code` and `err`.'],
  'worker.bug': ['error', 'Leasehold broke one of its own rules; the process ends by it.'],
  'startup.failed': ['warn', 'A startup step failed; it is tried again.'],
  'predecessor.closed': [
    'info',
    'The session of the process before it, under its name, was closed.',
  ],
  'session.lost': ['warn', 'Its session is gone, and everything it held with it; it rejoins.'],
  'store.failing': ['warn', 'Calls to the store have failed for half a lease; `calls` says which.'],
  'store.denied': ['error', 'The store refuses this worker; it has one lease for that to end.'],
  'store.barred': ['error', 'The store has refused it for a lease; it gives everything up.'],
  'store.healed': ['info', 'The store serves this worker again.'],
  'store.reset': ['error', 'The store was replaced or went back in time; the worker starts over.'],
  'record.ignored': ['warn', 'A key or record is not what it should be; said once for each key.'],
  'write.refused': ['error', 'The store refuses a write of a split for good.'],
  'leadership.gained': ['info', 'It leads the job.'],
  'leadership.lost': ['info or warn', 'It leads no more; info when it is leaving in order.'],
  'planner.failed': ['error', 'The planner threw, or its answer breaks the limits.'],
  'planner.late': ['warn', 'The planner has owed an answer for so long (R58).'],
  'planner.overdue': ['warn', 'The planner has had its time: its run is aborted (R59).'],
  'splits.unplaced': [
    'warn',
    'Splits have waited a lease for a place that none of them got (R60).',
  ],
  'splits.placed': ['info', 'No split waits for that reason any more (R60).'],
  'plan.recreated': ['warn', 'The plan was deleted by somebody; the leader puts it back.'],
  'plan.sealed': ['info', 'Every split of the final plan is stored.'],
  'assignment.published': ['info', 'The leader has divided the work anew.'],
  'peer.joined': ['info', 'Another worker is there.'],
  'peer.left': ['info', 'Another worker is leaving in order.'],
  'peer.vanished': [
    'warn',
    'Another worker is gone without a goodbye; its splits wait for it for `rebalanceDelayMs`.',
  ],
  'split.gained': ['debug', 'A tenancy begins.'],
  'split.lost': ['debug', 'A tenancy ended without its handler’s doing; `reason` says why.'],
  'split.forced': ['warn', 'A handler did not hand its split back within `drainDeadlineMs`.'],
  'split.quarantined': ['warn', 'A split is set aside; `reason` is what it failed with last.'],
  'handler.outlives': [
    'warn',
    'Work on a split has gone on for a lease after its tenancy; this process takes it no more until that ends.',
  ],
  'listener.threw': [
    'error',
    'A listener threw or rejected; counted in `listenerErrors` of the status.',
  ],
  'request.refused': ['warn', 'A request was refused as bad input; `code` says how.'],
  'split.faulty': ['warn', 'A commit below one that was accepted has failed its tenancy.'],
  'splits.suspected': [
    'warn',
    'What processes had in hand that ended is taken one at a time, once this one is old enough; said once.',
  ],
  'process.crashLoop': [
    'warn',
    'Processes ended one after the other with the same split in hand; find out what they died of.',
  ],
  'handler.threw': ['warn', 'A handler threw; the tenancy has failed by it.'],
  'handler.threwLate': ['warn', 'A handler threw after its tenancy had ended; that costs nothing.'],
  'handler.returned': ['warn', 'A handler returned without completing, and was not asked to.'],
  'inspector.threw': ['error', 'The inspector threw; said once.'],
  'job.verdict': ['info or warn', 'The job has ended; warn when splits were set aside.'],
} as const satisfies Record<string, readonly [LogLevel | 'info or warn', string]>;

type Table = typeof LOG_EVENTS;

/** The name of a log line. */
export type LogEvent = keyof Table;

/** The names that are logged at a level. */
export type LogEventAt<Level extends LogLevel> = {
  [Name in LogEvent]: Table[Name][0] extends `${string}${Level}${string}` ? Name : never;
}[LogEvent];
