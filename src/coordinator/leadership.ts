/**
 * Leadership of one worker: carries out what the leader chart decides, and holds the term while it lasts.
 *
 * Rules: R3, R15, R18-R20, R42. The leader key hangs on a session of its own.
 */
import type { LeaderEvent } from '../../machines/leader.events.ts';
import { leaderMachine } from '../../machines/leader.machine.ts';
import { ABSENT, type Revision } from '../base/decimals.ts';
import { isLeaseholdError } from '../base/errors.ts';
import { hash32 } from '../base/hash.ts';
import type { SessionId, SplitId } from '../base/ids.ts';
import { candidacyDelayMs, jitter, resignationPauseMs } from '../protocol/timing.ts';
import { ownersToAwait } from '../protocol/withheld.ts';
import { sameStamp, type Stamp } from '../records/codec.ts';
import { KEY_PREFIXES } from '../records/keys.ts';
import { leaderCodec, planCodec, type PlanRecord } from '../records/records.ts';
import type { Change, Entry, Range, Txn } from '../store/port.ts';
import { Balancing } from './balancing.ts';
import { NO_GUARD, type WriteAnswer } from './batcher.ts';
import type { RunningChart } from './chart-host.ts';
import type { Core } from './core.ts';
import type { Seen } from './fleet-view.ts';
import { joinJob } from './join.ts';
import { Judging } from './judging.ts';
import type { Peers } from './peers.ts';
import { Planning } from './planning.ts';
import { RangeWatcher } from './range-watcher.ts';
import { SessionKeeper } from './session-keeper.ts';
import { SplitReader } from './split-reader.ts';
import { Term } from './term.ts';

/** What leadership asks of the rest of the worker. */
export interface LeadershipHooks {
  /** Announced, not on the way out, and everything watched has been read. */
  mayStand(): boolean;
  /** Follows `assign/` while leading. */
  follow(watcher: RangeWatcher): void;
}

interface SentElection {
  readonly session: SessionId;
  readonly stamp: Stamp;
  readonly plan: PlanRecord;
  readonly leaderValue: string;
  readonly planValue: string;
}

const READ_RETRY_MS = 200;
/** A term of more leases than this wipes the slate of earlier resignations clean: as long as the longest pause. */
const GOOD_TERM_LEASES = 10;

export class Leadership {
  readonly #core: Core;
  readonly #hooks: LeadershipHooks;
  readonly #peers: Peers;
  readonly #fingerprint: string;
  readonly #session: SessionKeeper;
  readonly #chart: RunningChart<LeaderEvent>;
  readonly #seed: number;
  readonly #assignmentRange: Range;
  readonly planning: Planning;
  readonly balancing: Balancing;
  readonly #judging: Judging;
  #term: Term | null = null;
  #reader: SplitReader | null = null;
  #assignments: RangeWatcher | null = null;
  #vacancyTries = 0;
  #isCandidacyArmed = false;
  #isEnsuringPlan = false;
  #resignations = 0;
  #standsAgainAtMs = 0;
  #lossReason = '';
  #onDeparted: (() => void) | null = null;

  constructor(core: Core, peers: Peers, fingerprint: string, hooks: LeadershipHooks) {
    this.#core = core;
    this.#hooks = hooks;
    this.#peers = peers;
    this.#fingerprint = fingerprint;
    this.#seed = hash32(0, core.me);
    this.#assignmentRange = { prefix: core.keys.root + KEY_PREFIXES.assign };
    this.#session = new SessionKeeper(core, core.config.leaseDurationMs, {
      opened: () => {
        this.#send({ type: 'session.opened' });
      },
      expired: (_, reason) => {
        this.#sessionExpired(reason);
      },
    });
    const send = (event: LeaderEvent): void => {
      this.#send(event);
    };
    this.planning = new Planning(core, {
      send,
      resign: (holdOffMs, reason) => {
        this.#resign(holdOffMs, reason);
      },
      known: (split) => {
        this.#reader?.readSoon(split);
      },
    });
    this.balancing = new Balancing(core, peers, hash32(0, fingerprint), send);
    this.#judging = new Judging(core, send);
    this.#chart = core.charts.start(this.#provide(), 'leader', core.me, { instance: core.me });
  }

  get state(): string {
    return this.#chart.state;
  }

  get isLeading(): boolean {
    return this.#chart.isIn('leading');
  }

  get term(): Term | null {
    return this.isLeading ? this.#term : null;
  }

  /** Stands for election when nobody leads and it is this worker's turn; re-arms what is due while leading. */
  advance(): void {
    const { view } = this.#core;
    const isVacant = view.leader === null && !view.isLeaderUnreadable;
    if (!isVacant) {
      this.#vacancyTries = 0;
      if (this.#isCandidacyArmed) this.#send({ type: 'leader.seen' });
      this.#isCandidacyArmed = false;
    } else if (this.#chart.isIn('following') && !this.#isCandidacyArmed && this.#hooks.mayStand()) {
      this.#armCandidacy();
    }
    const term = this.term;
    if (term?.isReady === true) this.#judging.advance(term);
  }

  /** Runs each third of a lease: reads again what may have moved unheard (R24). */
  tick(): void {
    const term = this.term;
    if (term?.isReady === true && !this.#core.view.isPaused) this.#reader?.tick();
  }

  leaderChanged(change: Change): void {
    const term = this.term;
    if (term === null) {
      if (this.#chart.isIn('campaigning') && change.entry !== null) {
        const isMine = this.#core.view.leader?.session === this.#session.id;
        if (!isMine) this.#send({ type: 'leader.seen' });
      }
      return;
    }
    if (change.entry?.createRevision !== term.createRevision) {
      this.#lossReason = change.entry === null ? 'the leader key was deleted' : 'another leads';
      this.#send({ type: 'term.lost' });
    }
  }

  planChanged(): void {
    const term = this.term;
    if (term === null) return;
    if (this.#core.view.plan.kind === 'absent' && term.isReady) {
      this.planning.recreate(term, this.#fingerprint);
    }
    this.#judging.planChanged(term);
  }

  /** A lease came, changed or went: the leader hears of ownership by it (R24). */
  leaseChanged(split: SplitId, change: Change): void {
    const before = this.#term?.index.get(split)?.owner;
    this.#reader?.leaseChanged(split, change);
    // A mark changes the lease and nothing that the balance depends on.
    const isMark = change.entry !== null && this.#term?.index.get(split)?.owner === before;
    if (!isMark) this.inputsChanged();
  }

  /** A split was parked or put back: its record says what it is now. */
  parkedChanged(split: SplitId): void {
    this.#reader?.readSoon(split);
  }

  /** Something that the balance depends on moved. */
  inputsChanged(): void {
    if (this.term?.isReady === true) this.balancing.inputsChanged();
  }

  /** The worker is leaving: resign, and stand no more. */
  part(): void {
    this.#lossReason = 'the worker is leaving';
    this.#send({ type: 'worker.parting' });
  }

  /** Resolves once the resignation was answered, or there was none to give. */
  departed(): Promise<void> {
    if (this.#chart.hasEnded) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onDeparted = resolve;
    });
  }

  /** The store was replaced (R8). */
  reset(): void {
    this.#session.expire('reset');
  }

  /** The backstop for lost events on `assign/`. */
  relist(): void {
    this.#assignments?.relist();
    this.#judging.lookAgain();
  }

  /** Gives the leader session back; resolves when answered or given up. */
  closeSession(): Promise<void> {
    return this.#session.close();
  }

  close(): void {
    this.#endTerm();
    this.#chart.stop();
  }

  #send(event: LeaderEvent): void {
    const wasLeading = this.#chart.isIn('leading');
    const before = this.#chart.state;
    this.#chart.send(event);
    const isLeading = this.#chart.isIn('leading');
    if (wasLeading && !isLeading) {
      this.#core.log.warn('leadership.lost', 'no longer leads', { reason: this.#lossReason });
      this.#core.events.emit({ type: 'leadershipLost', reason: this.#lossReason });
      this.#lossReason = '';
    }
    if (!this.#chart.isIn('following')) this.#isCandidacyArmed = false;
    if (this.#chart.hasEnded) this.#onDeparted?.();
    // An event that changed nothing is nothing to decide on: asking for a decision each time could go round for ever.
    if (this.#chart.state !== before) this.#core.mailbox.requestDecision();
  }

  /** First by rank, so that candidates come one after the other; then each third of a lease (R20). */
  #armCandidacy(): void {
    const { clock, config, view, me } = this.#core;
    if (view.plan.kind !== 'seen') {
      this.#ensurePlan();
      return;
    }
    const { leaseDurationMs } = config;
    const rank = this.#peers.members().findIndex((member) => member.instance === me);
    const delayMs =
      this.#vacancyTries === 0
        ? candidacyDelayMs(Math.max(0, rank), leaseDurationMs)
        : jitter(this.#seed, this.#vacancyTries, leaseDurationMs / 3);
    const holdOffMs = Math.max(0, this.#standsAgainAtMs - clock.nowMs());
    this.#vacancyTries += 1;
    this.#isCandidacyArmed = true;
    this.#send({ type: 'leader.absent', delayMs: Math.max(delayMs, holdOffMs) });
  }

  /** No plan and no leader: it is created again, unless records prove that it was lost (R42). */
  #ensurePlan(): void {
    const { view, mailbox, clock } = this.#core;
    if (view.plan.kind !== 'absent' || this.#isEnsuringPlan) return;
    this.#isEnsuringPlan = true;
    const later = (): void => {
      clock.setTimeout(() => {
        mailbox.post(() => {
          this.#isEnsuringPlan = false;
        });
      }, READ_RETRY_MS);
    };
    joinJob(this.#core, this.#fingerprint).then(later, (error: unknown) => {
      if (!isLeaseholdError(error)) throw error;
      if (error.kind === 'fatal') this.#core.fatal(error);
      later();
    });
  }

  #resign(holdOffMs: number, reason: string): void {
    const { clock, config } = this.#core;
    const ledForMs = clock.nowMs() - (this.#term?.startedAtMs ?? 0);
    // A long good term makes up for the bad ones before it.
    this.#resignations =
      ledForMs > GOOD_TERM_LEASES * config.leaseDurationMs ? 1 : this.#resignations + 1;
    const pauseMs = resignationPauseMs(this.#resignations, config.leaseDurationMs);
    this.#standsAgainAtMs = clock.nowMs() + Math.max(pauseMs, holdOffMs);
    this.#lossReason = reason;
    this.#send({ type: 'term.unhealthy' });
  }

  #sessionExpired(reason: string): void {
    this.#lossReason = `the leader session ended (${reason})`;
    if (this.#chart.isIn('resigning') || this.#chart.isIn('deposed')) {
      this.#send({ type: 'term.closed' });
    } else {
      this.#send({ type: 'session.expired' });
    }
  }

  #provide(): typeof leaderMachine {
    return leaderMachine.provide({
      actions: {
        openLeaderSession: (_) => {
          this.#session.open();
        },
        closeLeaderSession: (_) => {
          this.#closeTerm();
        },
        requestElection: (_) => {
          this.#standForElection();
        },
        beginTerm: (_) => {
          this.#core.mailbox.post(() => {
            this.#beginTerm();
          });
        },
        endTerm: (_) => {
          this.#endTerm();
        },
        requestResignation: (_) => {
          this.#requestResignation();
        },
        startPlanner: (_) => {
          if (this.#term !== null) this.planning.start(this.#term);
        },
        seedSplits: (_) => {
          if (this.#term !== null) this.planning.seed(this.#term);
        },
        publishPlan: (_) => {
          if (this.#term !== null) this.planning.publish(this.#term);
        },
        scheduleReplan: (_) => {
          if (this.#term !== null) this.planning.schedule(this.#term);
        },
        balance: (_) => {
          if (this.#term !== null) this.balancing.balance(this.#term);
        },
        readSplits: (_) => {
          if (this.#term !== null) this.#judging.read(this.#term);
        },
        writeVerdict: (_) => {
          if (this.#term !== null) this.#judging.record(this.#term);
        },
      },
    });
  }

  /** Gives the leader session back in the background, and says that the term is closed. */
  #closeTerm(): void {
    const isClosed = this.#session.close();
    void isClosed.then(() => {
      this.#core.mailbox.post(() => {
        if (this.#chart.isIn('deposed')) this.#send({ type: 'term.closed' });
      });
    });
  }

  #standForElection(): void {
    const { plan } = this.#core.view;
    const { id } = this.#session;
    if (plan.kind !== 'seen' || id === null) {
      this.#core.mailbox.post(() => {
        this.#send({ type: 'election.lost' });
      });
      return;
    }
    this.#putElection(id, plan.plan);
  }

  #putElection(session: SessionId, seen: Pick<Seen<PlanRecord>, 'record' | 'modRevision'>): void {
    const core = this.#core;
    const stamp = core.stamp();
    const plan = { ...seen.record, generation: seen.record.generation + 1 };
    const { generation } = plan;
    const leader = { owner: core.me, nonce: core.nonce, generation };
    const sent: SentElection = {
      session,
      stamp,
      plan,
      leaderValue: leaderCodec.encode(leader, stamp),
      planValue: planCodec.encode(plan, stamp),
    };
    const txn: Txn = {
      compares: [
        { key: core.keys.leader, target: 'createRevision', equals: ABSENT },
        { key: core.keys.plan, target: 'modRevision', equals: seen.modRevision },
      ],
      writes: [
        { put: core.keys.leader, value: sent.leaderValue, session },
        { put: core.keys.plan, value: sent.planValue, session: null },
      ],
      onConflict: [core.keys.leader, core.keys.plan],
    };
    core.batcher.enqueue({
      name: 'elect',
      isSessionBound: true,
      guard: NO_GUARD,
      build: () => txn,
      matters: () => this.#session.id === session,
      answered: (answer) => {
        this.#onElection(sent, answer);
      },
    });
  }

  #onElection(sent: SentElection, answer: WriteAnswer): void {
    switch (answer.kind) {
      case 'committed':
        this.#elected(sent, answer.revision);
        return;
      case 'conflict':
        this.#onElectionConflict(sent, answer);
        return;
      case 'refused':
        if (answer.error.kind !== 'fenced') this.#send({ type: 'election.lost' });
        // A session opened since is another one.
        else if (this.#session.id === sent.session) this.#session.expire('gone');
        return;
      case 'abandoned':
      case 'guardFailed':
        return;
    }
  }

  #onElectionConflict(sent: SentElection, answer: WriteAnswer & { kind: 'conflict' }): void {
    const [leader = null, plan = null] = answer.found;
    const { view, keys } = this.#core;
    const decoded = leader === null ? null : leaderCodec.decode(leader.value);
    if (leader !== null && decoded?.kind === 'record' && sameStamp(decoded.stamp, sent.stamp)) {
      this.#elected(sent, leader.modRevision);
      return;
    }
    view.apply({
      key: keys.leader,
      modRevision: leader?.modRevision ?? answer.revision,
      entry: leader,
    });
    view.apply({ key: keys.plan, modRevision: plan?.modRevision ?? answer.revision, entry: plan });
    // Only the plan has moved: stand again on what it says now.
    const seen = view.plan;
    if (leader === null && seen.kind === 'seen' && this.#session.id === sent.session) {
      this.#putElection(sent.session, seen.plan);
      return;
    }
    this.#send({ type: 'election.lost' });
  }

  #elected(sent: SentElection, revision: Revision): void {
    const { view, keys } = this.#core;
    const entryOf = (key: string, value: string, session: SessionId | null): Entry => ({
      key,
      value,
      createRevision: revision,
      modRevision: revision,
      session,
    });
    const { generation } = sent.plan;
    if (this.#chart.isIn('campaigning')) {
      this.#term = new Term(
        this.#core,
        this.#session,
        { generation, createRevision: revision },
        {
          guardFailed: () => {
            this.#lossReason = 'a write found that another leads, or nobody';
            this.#send({ type: 'term.lost' });
          },
          unhealthy: () => {
            this.#resign(0, 'its writes have failed for one lease');
          },
        },
      );
    }
    const leaderEntry = entryOf(keys.leader, sent.leaderValue, sent.session);
    view.apply({
      key: keys.plan,
      modRevision: revision,
      entry: entryOf(keys.plan, sent.planValue, null),
    });
    view.apply({ key: keys.leader, modRevision: revision, entry: leaderEntry });
    // Landed is not held: the key must show under the session this candidacy has now (R3).
    const isHeld =
      view.leader?.session === this.#session.id && view.leader?.modRevision === revision;
    if (isHeld && this.#session.isValid()) {
      this.#send({ type: 'election.won' });
      return;
    }
    this.#endTerm();
    this.#send({ type: 'election.lost' });
  }

  #beginTerm(): void {
    const term = this.#term;
    if (term === null || !this.isLeading) return;
    const core = this.#core;
    core.log.info('leadership.gained', 'leads the job', { generation: term.generation });
    core.events.emit({ type: 'leadershipGained', generation: term.generation });
    this.#reader = new SplitReader(core, term, this.#peers, () => {
      this.inputsChanged();
    });
    const range = this.#assignmentRange;
    this.#assignments = new RangeWatcher(range, core.gate, core.clock, {
      onListing: (entries, revision) => {
        core.view.list(range, entries, revision);
        this.#load(term);
      },
      onChanges: (changes) => {
        for (const change of changes) core.view.apply(change);
      },
      // The follower's own watches hear of it too.
      onReset: () => undefined,
    });
    this.#hooks.follow(this.#assignments);
    this.#assignments.start();
  }

  /** Reads every split once, then decides (R24). */
  #load(term: Term): void {
    const core = this.#core;
    if (term.isOver || term.isReady) return;
    core.gate.readAll({ prefix: `${core.keys.root}splits/` }).then(
      ({ entries }) => {
        core.mailbox.post(() => {
          if (term.isOver || term.isReady) return;
          this.#reader?.load(entries);
          term.isReady = true;
          this.#resume(term);
        });
      },
      (error: unknown) => {
        if (!isLeaseholdError(error)) throw error;
        core.clock.setTimeout(() => {
          core.mailbox.post(() => {
            this.#load(term);
          });
        }, READ_RETRY_MS);
      },
    );
  }

  /** Takes the job up where the plan says it stands. */
  #resume(term: Term): void {
    const { plan } = this.#core.view;
    this.#expectMissing(term);
    if (plan.kind === 'absent') this.planning.recreate(term, this.#fingerprint);
    const record = plan.kind === 'seen' ? plan.plan.record : null;
    this.#send({ type: record?.sealed === true ? 'plan.kept' : 'plan.due' });
    if (record !== null && record.verdict !== null) this.#send({ type: 'verdict.found' });
    this.balancing.begin();
  }

  /** Owners that this worker never saw: their delay begins with its election, unless they were given up (R26). */
  #expectMissing(term: Term): void {
    const { presences, assignments } = this.#core.view;
    const missing = ownersToAwait(
      term.index.runnable(),
      (instance) => presences.has(instance),
      (instance) => assignments.has(instance),
    );
    for (const instance of missing) this.#peers.missing(instance);
  }

  #endTerm(): void {
    this.#term?.end();
    this.#term = null;
    this.#reader = null;
    this.planning.stop();
    this.#assignments?.close();
    this.#assignments = null;
  }

  /** Deletes the leader key if it is still this term's (T14); if that cannot land, the session runs out (R18). */
  #requestResignation(): void {
    const core = this.#core;
    const { leader } = core.keys;
    const { id } = this.#session;
    const createRevision = core.view.leader?.createRevision ?? ABSENT;
    this.#session.stopRenewing();
    core.batcher.enqueue({
      name: 'resign',
      isSessionBound: false,
      guard: NO_GUARD,
      build: () => ({
        compares: [{ key: leader, target: 'createRevision', equals: createRevision }],
        writes: [{ delete: leader }],
        onConflict: [],
      }),
      matters: () => this.#session.id === id,
      answered: (answer) => {
        if (answer.kind === 'refused' && answer.error.kind !== 'fenced') return;
        if (answer.kind === 'committed') {
          core.view.apply({ key: leader, modRevision: answer.revision, entry: null });
        }
        void this.#session.close();
        this.#send({ type: 'term.closed' });
      },
    });
  }
}
