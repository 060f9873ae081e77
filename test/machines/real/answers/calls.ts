/** The calls by which each request is carried out, so that they can go wrong. */
import type { ChartName } from '../../../../machines/index.ts';
import type { StoreCall } from '../../../../src/store/faults.ts';
import { touches } from '../calls.ts';
import { ME, type Stage } from '../stage.ts';
import { type Span, TIMES } from './life.ts';

type Picks = (call: StoreCall) => boolean;

export interface Calls {
  readonly of: (stage: Stage) => Picks;
  readonly span: Span;
}

const WHOLE: Span = { fromMs: 0, healedMs: TIMES.healed };
const LEAVING: Span = { fromMs: TIMES.leaving - 1, healedMs: TIMES.over };
const from = (fromMs: number): Span => ({ fromMs, healedMs: TIMES.healed });

const root =
  (picks: (root: string, stage: Stage) => Picks) =>
  (stage: Stage): Picks =>
    picks(stage.keys.root, stage);

const puts = (...kinds: string[]) =>
  root((at) => touches({ puts: kinds.map((kind) => at + kind) }));
const deletes = (...kinds: string[]) =>
  root((at) => touches({ deletes: kinds.map((kind) => at + kind) }));
const reads = (...names: string[]) =>
  root(
    (at) => (call) =>
      call.kind === 'read' &&
      'keys' in call.range &&
      names.every((name) => (call.range as { keys: readonly string[] }).keys.includes(at + name)),
  );
const lists = (
  kind: string,
  isSuch: (call: StoreCall & { kind: 'read' }) => boolean = () => true,
) =>
  root(
    (at) => (call) =>
      call.kind === 'read' &&
      'prefix' in call.range &&
      call.range.prefix === at + kind &&
      isSuch(call),
  );

/** The openings of sessions, but for the first so many ids: the probe has one of its own. */
const opensAfter = (count: number) => (): Picks => {
  const seen = new Set<string>();
  return (call) => call.kind === 'openSession' && seen.add(call.id).size > count;
};
const any = (kind: StoreCall['kind']) => (): Picks => (call) => call.kind === kind;

const keysOnly = ({ read }: StoreCall & { kind: 'read' }): boolean => read.keysOnly === true;
const isAt = ({ read }: StoreCall & { kind: 'read' }): boolean => read.atRevision !== undefined;

export const CALLS: Readonly<Partial<Record<ChartName, Readonly<Record<string, Calls>>>>> = {
  tenancy: {
    requestClaim: { of: puts('leases/', 'splits/'), span: WHOLE },
    requestEnding: { of: deletes('leases/'), span: WHOLE },
  },
  presence: {
    probeStore: { of: puts('probe/'), span: WHOLE },
    joinJob: { of: reads('plan', 'leader'), span: WHOLE },
    openSession: { of: opensAfter(1), span: WHOLE },
    announce: { of: puts(`workers/${ME}`), span: WHOLE },
  },
  session: {
    openSession: { of: opensAfter(1), span: WHOLE },
    openAgain: { of: opensAfter(1), span: WHOLE },
    renew: { of: any('keepAlive'), span: WHOLE },
    closeSession: { of: any('closeSession'), span: LEAVING },
  },
  leader: {
    seekPlan: { of: reads('plan', 'leader'), span: from(TIMES.orphaned - 1) },
    openLeaderSession: { of: opensAfter(2), span: WHOLE },
    requestElection: { of: puts('leader'), span: WHOLE },
    openTerm: { of: lists('splits/', (call) => !isAt(call)), span: WHOLE },
    seedSplits: { of: puts('specs/'), span: WHOLE },
    publishPlan: { of: puts('plan'), span: from(TIMES.orphaned + 400) },
    recreatePlan: { of: puts('plan'), span: from(TIMES.planLost) },
    balance: { of: puts('assign/'), span: WHOLE },
    readSplits: { of: lists('splits/', isAt), span: WHOLE },
    writeVerdict: { of: puts('plan'), span: from(TIMES.done) },
    requestResignation: { of: deletes('leader'), span: LEAVING },
  },
  departure: {
    resign: { of: deletes('leader'), span: LEAVING },
    sayGoodbye: { of: deletes(`workers/${ME}`), span: LEAVING },
    closeSessions: { of: any('closeSession'), span: LEAVING },
  },
  follow: {
    list: { of: lists('control/', (call) => !keysOnly(call)), span: WHOLE },
    verify: { of: lists('control/', keysOnly), span: from(1_000) },
  },
  writing: {
    resendBatch: { of: puts(`workers/${ME}`), span: WHOLE },
  },
};
