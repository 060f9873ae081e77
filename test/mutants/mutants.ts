/**
 * Deliberate mistakes in the protocol, as patches of the source. Each must be caught by the simulator, by a test of the
 * charts or by the scenarios that it names: what no test notices is not tested. `npm run mutants` tries them; none of them is
 * ever in the tree.
 */

/** One place that a mistake changes. `find` occurs exactly once in the file. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** One mistake. */
export interface Mutant {
  /** What is done wrongly, as a phrase. */
  readonly mistake: string;
  /** The rules that it breaks. */
  readonly rules: string;
  readonly edits: readonly Edit[];
  /** Test files that notice it where fleets and charts cannot: the scenarios of its rules. */
  readonly tests?: string;
}

const RECORDS = 'src/protocol/tenancy-records.ts';
const CLAIM = 'src/protocol/claim.ts';
const TENANCIES = 'src/coordinator/holding/tenancies.ts';
const TENANCY = 'src/coordinator/holding/tenancy.ts';
const HELD_CHART = 'machines/tenancy/tenancy.held.ts';
const LINK_CHART = 'machines/link/link.machine.ts';
const PEER_CHART = 'machines/peer/peer.machine.ts';
const SESSION = 'src/coordinator/link/session-keeper.ts';
const BATCHER = 'src/coordinator/link/batcher.ts';
const LEASES = 'src/coordinator/holding/lease-keeper.ts';
const PLANNING = 'src/coordinator/leading/planning.ts';
const SPLIT_READER = 'src/coordinator/leading/split-reader.ts';
const JUDGING = 'src/coordinator/leading/judging.ts';
const VERDICT = 'src/protocol/verdict.ts';
const ANNOUNCEMENT = 'src/coordinator/membership/announcement.ts';
const STORE_AGE = 'src/coordinator/link/store-age.ts';
const PROBE = 'src/coordinator/link/probe.ts';
const ERRORS_AND_PATHS = 'test/scenarios/store/errors-and-paths';
const TRANSACTIONS = 'src/protocol/transactions.ts';
const PLAN_RECORDS = 'src/protocol/plan-records.ts';
const ANNOUNCING = 'src/protocol/announcing.ts';

function one(
  mistake: string,
  rules: string,
  file: string,
  [find, replace]: readonly [find: string, replace: string],
): Mutant {
  return { mistake, rules, edits: [{ file, find, replace }] };
}

/** A mistake that a scenario shows, on a store that goes wrong call by call. */
function shownBy(tests: string, mutant: Mutant): Mutant {
  return { ...mutant, tests };
}

export const MUTANTS: readonly Mutant[] = [
  // The fence
  one('a claim leaves the epoch as it is', 'R30', RECORDS, [
    'return { ...record, epoch: nextEpoch(record.epoch), owner, nonce, attempts };',
    'return { ...record, owner, nonce, attempts };',
  ]),
  one('a commit compares nothing', 'R2', TRANSACTIONS, [
    'return { compares, writes, onConflict: [key, lease] };',
    'return { compares: [], writes, onConflict: [key, lease] };',
  ]),
  one('a claim does not wait for the lease to go', 'R12, R30', TRANSACTIONS, [
    'compares: [isAt(split, where.revision), ...leaseCompares],',
    'compares: [isAt(split, where.revision)],',
  ]),
  one('a foreign lease is taken for one of ours', 'R12', CLAIM, [
    'if (lease !== null && lease.owner !== me.instance) {',
    'if (lease?.session === null) {',
  ]),
  one('a completed split may be claimed', 'R30', CLAIM, [
    "if (record.status !== 'runnable') return { kind: 'ended', status: record.status };",
    "if (record.status !== 'runnable' && record.status !== 'completed')\n    return { kind: 'ended', status: record.status };",
  ]),
  one('a quarantine leaves the epoch as it is', 'R28', RECORDS, [
    "return { ...record, status: 'quarantined', epoch: nextEpoch(record.epoch) };",
    "return { ...record, status: 'quarantined' };",
  ]),
  one('a watermark may fall', 'R38', TENANCY, [
    'if (compareWatermarks(progress.watermark, this.#acceptedWatermark) >= 0) return null;',
    'return null;',
  ]),
  one('a conflict at the owner’s own epoch ends the tenancy', 'R4', TENANCY, [
    "      case 'adopt':\n        this.known.wrote",
    "      case 'adopt':\n        if (sent.ending !== null) {\n          this.#ended(sent);\n          return;\n        }\n        this.known.wrote",
  ]),

  // Unknown outcomes
  one('an unknown outcome is settled by reading', 'R1', BATCHER, [
    'lane.batch = lane.batch.filter((one) => this.#keep(one));\n      if (lane.batch.length === 0)',
    "for (const { item } of lane.batch.splice(0)) item.answered({ kind: 'abandoned' });\n      if (lane.batch.length === 0)",
  ]),
  one('an unknown outcome is taken for a success', 'R1', BATCHER, [
    'lane.batch = lane.batch.filter((one) => this.#keep(one));\n      if (lane.batch.length === 0)',
    "for (const { item } of lane.batch.splice(0))\n        item.answered({ kind: 'committed', revision: '1' as Revision });\n      if (lane.batch.length === 0)",
  ]),

  // Sessions
  one('the self-fence counts from when the answer came', 'R10', SESSION, [
    'held.deadlineMs = Math.max(held.deadlineMs, sentAtMs + this.#lifeMs(grant.ttlMs));',
    'held.deadlineMs = this.#nowMs + this.#lifeMs(grant.ttlMs);',
  ]),
  one('nobody counts the life of a session', 'R10', SESSION, [
    'return ttlMs - selfFenceMarginMs(ttlMs);',
    'return 1_000 * ttlMs;',
  ]),
  one('a session is opened anew and the tenancies of the old one go on', 'R41', TENANCIES, [
    "      tenancy.send({ type: 'session.expired' });\n    }\n  }\n\n  /** The worker is leaving",
    '    }\n  }\n\n  /** The worker is leaving',
  ]),
  one('twins react to any foreign presence', 'R13, R14', ANNOUNCING, [
    "if (me.hasLanded) return { kind: 'twin', other: record };",
    "return { kind: 'twin', other: record };",
  ]),
  one('an orphan is dropped while a claim of its split is unsettled', 'R12', LEASES, [
    "else if (tenancy?.chart.isIn('claiming') !== true) this.#dropOrphan(split, lease);",
    'else this.#dropOrphan(split, lease);',
  ]),
  one('a mark compares no revision', 'R32', TRANSACTIONS, [
    'compares: [isAt(key, where.equals), hangsOn(key, where.session)],',
    'compares: [],',
  ]),
  one('a mark hangs on no session', 'R5, R32', TRANSACTIONS, [
    'writes: [{ put: key, value, session: where.session }],\n    onConflict: [],',
    'writes: [{ put: key, value, session: null }],\n    onConflict: [],',
  ]),

  // The leader
  one('leader writes are not guarded', 'R19', 'src/coordinator/leading/term.ts', [
    'this.guard = leadsCompares(core.keys, elected);',
    'this.guard = [];',
  ]),
  one('a plan is accepted after its term', 'R19', PLANNING, [
    'if (term.isOver) return;\n          this.#answer = answer;',
    'this.#answer = answer;',
  ]),
  one('an election leaves the generation as it is', 'R20', PLAN_RECORDS, [
    'return { ...plan, generation: plan.generation + 1 };',
    'return { ...plan, generation: Math.max(1, plan.generation) };',
  ]),
  one('an election overwrites the leader that is there', 'R19', TRANSACTIONS, [
    'compares: [isAbsent(leader), isAt(plan, where.planRevision)],',
    'compares: [isAt(plan, where.planRevision)],',
  ]),
  one('seeding writes over what is stored', 'R21', TRANSACTIONS, [
    'compares: [isAbsent(spec), isAbsent(split)],',
    'compares: [],',
  ]),
  one('an absent assignment is read as “hold nothing”', 'R25', TENANCIES, [
    "assignment === undefined ? tenancy.chart.hasTag('held') : named.has(tenancy.split);",
    'named.has(tenancy.split);',
  ]),
  {
    mistake: 'a rebalance delay of zero means never',
    rules: 'R26',
    edits: [
      {
        file: PEER_CHART,
        find: 'hasNoDelay: (_, params: { delayMs: number }) => params.delayMs === 0,',
        replace: 'hasNoDelay: (_, params: { delayMs: number }) => params.delayMs < 0,',
      },
      {
        file: PEER_CHART,
        find: 'rebalanceDelay: ({ context }) => context.delayMs,',
        replace: 'rebalanceDelay: ({ context }) => context.delayMs || 86_400_000,',
      },
    ],
  },
  one('the leader reads nothing again by itself', 'R24', SPLIT_READER, [
    'if (!view.leases.has(split)) this.readSoon(split);',
    'if (view.leases.has(split)) this.readSoon(split);',
  ]),
  one('a verdict is given on a stale plan', 'R23', JUDGING, [
    'equals: judgement.modRevision,',
    'equals: this.#core.view.entry(keys.plan)!.modRevision,',
  ]),
  {
    mistake: 'a verdict does not wait for the seal',
    rules: 'R22, R23',
    edits: [
      {
        file: VERDICT,
        find: "if (!plan.sealed || plan.finality !== 'final') return wait('unsealed');",
        replace: "if (plan.finality === 'unknown') return wait('unsealed');",
      },
      {
        file: JUDGING,
        find: 'if (!record.sealed || record.verdict !== null) return;',
        replace: 'if (record.verdict !== null) return;',
      },
    ],
  },
  one('a requeue leaves the plan alone', 'R23', TRANSACTIONS, [
    'writes: [durable(split, values.split), durable(plan, values.plan), { delete: keys.parked(id) }],',
    'writes: [durable(split, values.split), { delete: keys.parked(id) }],',
  ]),

  // Attempts
  one('a graceful release costs an attempt', 'R31', CLAIM, [
    "return claim === 'reclaim' || claim === 'expired';",
    "return claim !== 'create';",
  ]),
  one('a takeover costs no attempt', 'R31', CLAIM, [
    "return claim === 'reclaim' || claim === 'expired';",
    "return claim === 'reclaim';",
  ]),
  one('a commit without progress clears the attempts', 'R31', RECORDS, [
    'const rose = compareWatermarks(progress.watermark, startWatermark) > 0;',
    'const rose = compareWatermarks(progress.watermark, startWatermark) >= 0;',
  ]),
  one('progress does not clear the attempts', 'R31', RECORDS, ['if (rose) next.attempts = 0;', '']),
  one('the cap is one too high', 'R28', 'src/protocol/attempts.ts', [
    'return attempts >= maxAttempts;',
    'return attempts > maxAttempts;',
  ]),

  // Draining
  one('a drain cut reports the split as completed', 'R36', HELD_CHART, [
    "'drain.finished': closeWith('release'),",
    "'drain.finished': closeWith('complete'),",
  ]),
  one('a cancelled drain has no bound', 'R34', HELD_CHART, [
    'entry: [noteSilence, armTimer],',
    'entry: [noteSilence],',
  ]),
  one('a drain has no deadline', 'R33', HELD_CHART, [
    "actions: [noteWithdrawal, noteDrainStart, armTimer, 'markLease', 'askForSplit'],",
    "actions: [noteWithdrawal, noteDrainStart, 'markLease', 'askForSplit'],",
  ]),
  one('a handler that ignores its loss is started again beside itself', 'R27', TENANCIES, [
    'if (isOpen && !this.#refused.has(split)) this.#open(split);',
    'if (isOpen) this.#open(split);',
  ]),
  one('a worker closes its session first when it leaves', 'R17', 'src/coordinator/departure.ts', [
    'tenancies.stopAll();',
    'tenancies.stopAll();\n              void this.#core.session.close();',
  ]),

  // Nothing hangs
  {
    mistake: 'a store that is another one drops the wish for a session, and tells nobody',
    rules: 'R8, R11',
    edits: [
      {
        file: 'machines/session/session.machine.ts',
        find: "'store.reset': { target: 'opening', reenter: true },",
        replace: "'store.reset': { target: 'closed', actions: 'discardOpening' },",
      },
      {
        file: 'machines/presence/presence.machine.ts',
        find: "'session.opened': 'putting',\n            'step.denied': 'barred',\n            'store.reset': 'joining',",
        replace: "'session.opened': 'putting',\n            'step.denied': 'barred',",
      },
    ],
  },
  one(
    'a leader takes itself for present when its own session has ended',
    'R26, R28',
    'src/coordinator/membership/peers.ts',
    [
      'if (presence === undefined) {',
      'if (presence === undefined && instance === this.#core.me) return;\n    if (presence === undefined) {',
    ],
  ),
  one('an answer that is too large is asked for again as it was', 'R24', 'src/store/read-all.ts', [
    'limit = Math.floor(limit / 2);',
    'limit = Math.max(limit, 1);',
  ]),
  one('nobody notices that the store went back while it was cut off', 'R8', STORE_AGE, [
    'if (this.#isTold) return;\n    this.#isTold = true;',
    'return;',
  ]),
  one(
    'another store does not make a process’s announcement its first one',
    'R8, R14',
    ANNOUNCEMENT,
    ['    this.#announcedAt = null;\n    this.landedAtMs = null;', '    this.#announcedAt = null;'],
  ),
  one('a worker that is refused for good keeps what it holds', 'R18', LINK_CHART, [
    "'patience.over': { target: 'barred', actions: 'abandonAll' },",
    "'patience.over': { target: 'barred' },",
  ]),
  shownBy(
    ERRORS_AND_PATHS,
    one(
      'two clusters in one list of endpoints are waited out',
      'R8',
      'src/coordinator/link/link-health.ts',
      ["new Set(['E_STORE_UNSUPPORTED', 'E_CLUSTERS_MIXED'])", "new Set(['E_STORE_UNSUPPORTED'])"],
    ),
  ),
  {
    mistake: 'the probe’s keys outlive a start that dies in the middle',
    rules: 'R5',
    edits: [
      {
        file: PROBE,
        find: 'const put = (key: Key, session: SessionId): Write => ({ put: key, value: CHANGED, session });',
        replace: 'const put = (key: Key): Write => ({ put: key, value: CHANGED, session: null });',
      },
      {
        file: PROBE,
        find: '{ put: key, value: CREATED, session }',
        replace: '{ put: key, value: CREATED, session: null }',
      },
      {
        file: PROBE,
        find: 'if (entry !== undefined && entry.session !== session) {',
        replace: 'if (entry === null) {',
      },
      {
        file: PROBE,
        find: 'await gate.closeSession(session);',
        replace:
          'await gate.transact({ guard: [], txns: keys.map((key) => ({ compares: [], writes: [{ delete: key }], onConflict: [] })) });',
      },
    ],
  },
  shownBy(
    'test/scenarios/leading/blind-leader',
    one('a leader that cannot read goes on leading', 'R18', 'src/coordinator/leading/term.ts', [
      'this.#core.mailbox.post(() => {\n        this.failed(work);\n      });',
      '',
    ]),
  ),
  shownBy(
    'test/scenarios/store/repeated-revisions',
    one('a commit names no session', 'R47', TRANSACTIONS, [
      'const compares = [isAt(key, revision), hangsOn(lease, session)];',
      'const compares = [isAt(key, revision)];',
    ]),
  ),
  shownBy(
    'test/scenarios/holding/lost-deletes',
    one('what is awaited is looked at no sooner than anything else', 'R24, R27', TENANCIES, [
      ".filter(({ chart }) => chart.isIn('awaiting'))",
      '.filter(() => false)',
    ]),
  ),
  shownBy(
    'test/scenarios/leading/owners-away',
    one(
      'a leader does not read since when owners are missing',
      'R26',
      'src/coordinator/leading/away-notes.ts',
      ['for (const entry of entries) this.#take(entry);', 'void entries;'],
    ),
  ),
];
