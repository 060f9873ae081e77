/**
 * Leadership of one worker: carries out what the leader chart decides, and holds the term while it lasts.
 *
 * Rules: R3, R15, R18-R20, R42. The leader key hangs on a session of its own.
 */
import type { LeaderEvent } from '../../../machines/leader/leader.events.ts';
import { leaderMachine } from '../../../machines/leader/leader.machine.ts';
import { ABSENT, type Revision } from '../../base/decimals.ts';
import { hash32 } from '../../base/hash.ts';
import type { SplitId } from '../../base/ids.ts';
import { ownersToAwait } from '../../protocol/withheld.ts';
import type { Change } from '../../store/port.ts';
import { Balancing } from './balancing.ts';
import { NO_GUARD } from '../link/batcher.ts';
import { Candidacy } from './candidacy.ts';
import type { RunningChart } from '../loop/chart-host.ts';
import type { Core } from '../link/core.ts';
import { Election } from './election.ts';
import { Judging } from './judging.ts';
import type { Peers } from '../membership/peers.ts';
import { Planning } from './planning.ts';
import { SessionKeeper } from '../link/session-keeper.ts';
import { SplitReader } from './split-reader.ts';
import { Term } from './term.ts';
import { TermOpening } from './term-opening.ts';

/** What leadership asks of the rest of the worker. */
export interface LeadershipHooks {
  /** Announced, not on the way out, and everything watched has been read. */
  mayStand(): boolean;
}

export class Leadership {
  readonly #core: Core;
  readonly #hooks: LeadershipHooks;
  readonly #peers: Peers;
  readonly #session: SessionKeeper;
  readonly #chart: RunningChart<LeaderEvent>;
  readonly #candidacy: Candidacy;
  readonly #election: Election;
  readonly planning: Planning;
  readonly balancing: Balancing;
  readonly #judging: Judging;
  #term: Term | null = null;
  #reader: SplitReader | null = null;
  #opening: TermOpening | null = null;
  #lossReason = '';
  #onDeparted: (() => void) | null = null;

  constructor(core: Core, peers: Peers, hooks: LeadershipHooks) {
    this.#core = core;
    this.#hooks = hooks;
    this.#peers = peers;
    this.#candidacy = new Candidacy(core, peers);
    this.#session = new SessionKeeper(core, core.config.leaseDurationMs, {
      opened: () => {
        this.#send({ type: 'session.opened' });
      },
      expired: (_, reason) => {
        this.#sessionExpired(reason);
      },
    });
    this.#election = new Election(core, this.#session, {
      landed: (elected) => {
        if (this.#chart.isIn('campaigning')) this.#term = this.#newTerm(elected);
      },
      won: () => {
        this.#send({ type: 'election.won' });
      },
      lost: () => {
        this.#endTerm();
        this.#send({ type: 'election.lost' });
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
      moved: () => {
        this.inputsChanged();
      },
      known: (split) => {
        this.#reader?.readSoon(split);
      },
    });
    this.balancing = new Balancing(core, peers, hash32(0, core.fingerprint), send);
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
      if (this.#candidacy.isArmed) this.#send({ type: 'leader.seen' });
      this.#candidacy.leaderSeen();
    } else if (
      this.#chart.isIn('following') &&
      !this.#candidacy.isArmed &&
      this.#hooks.mayStand()
    ) {
      const delayMs = this.#candidacy.nextDelayMs();
      if (delayMs !== null) this.#send({ type: 'leader.absent', delayMs });
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
      this.planning.recreate(term);
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
    this.#opening?.relist();
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
    if (!this.#chart.isIn('following')) this.#candidacy.isArmed = false;
    if (this.#chart.hasEnded) this.#onDeparted?.();
    // An event that changed nothing is nothing to decide on: asking for a decision each time could go round for ever.
    if (this.#chart.state !== before) this.#core.mailbox.requestDecision();
  }

  #resign(holdOffMs: number, reason: string): void {
    this.#candidacy.resigned(this.#term?.startedAtMs ?? 0, holdOffMs);
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
          this.#election.stand();
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

  #newTerm(elected: { generation: number; createRevision: Revision }): Term {
    return new Term(this.#core, this.#session, elected, {
      guardFailed: () => {
        this.#lossReason = 'a write found that another leads, or nobody';
        this.#send({ type: 'term.lost' });
      },
      unhealthy: () => {
        this.#resign(0, 'its writes have failed for one lease');
      },
    });
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
    this.#opening = new TermOpening(core, term, this.#reader, () => {
      this.#resume(term);
    });
    this.#opening.start();
  }

  /** Takes the job up where the plan says it stands. */
  #resume(term: Term): void {
    const { plan } = this.#core.view;
    this.#expectMissing(term);
    if (plan.kind === 'absent') this.planning.recreate(term);
    const record = plan.kind === 'seen' ? plan.plan.record : null;
    this.#send({ type: record?.sealed === true ? 'plan.kept' : 'plan.due' });
    if (record !== null && record.verdict !== null) this.#send({ type: 'verdict.found' });
    this.balancing.begin();
  }

  /** Owners that this worker never saw: their delay begins with its election, unless they were given up (R26). */
  #expectMissing(term: Term): void {
    const { presences, assignments } = this.#core.view;
    const missing = ownersToAwait(
      term.index.owned(),
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
    this.#opening?.close();
    this.#opening = null;
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
          core.view.wrote(leader, null, answer.revision);
        }
        void this.#session.close();
        this.#send({ type: 'term.closed' });
      },
    });
  }
}
