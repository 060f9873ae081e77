/**
 * Leadership of one worker: carries out what the leader chart decides, and holds the term while it lasts.
 *
 * Rules: R3, R15, R18-R20, R42, R58, R59. The leader key hangs on a session of its own.
 */
import type { LeaderEvent } from '../../../machines/leader/leader.events.ts';
import { leaderMachine } from '../../../machines/leader/leader.machine.ts';
import { hash32 } from '../../base/hash.ts';
import type { SplitId } from '../../base/ids.ts';
import type { Unplaced } from '../../protocol/unplaced.ts';
import type { Change } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import { SessionKeeper } from '../link/session-keeper.ts';
import type { RunningChart } from '../loop/chart-host.ts';
import type { Peers } from '../membership/peers.ts';
import { Balancing } from './balancing.ts';
import { Candidacy } from './candidacy.ts';
import { type Elected, Election } from './election.ts';
import { Judging } from './judging.ts';
import { leaderIn, outlookOf } from './outlook.ts';
import { PlannerRest } from './planner-rest.ts';
import type { PlannerRun } from '../api/status.ts';
import { Planning, planningEffects } from './planning.ts';
import { newReign, type Reign } from './reign.ts';
import type { Term } from './term.ts';
import { AssignmentsWatch } from './term-opening.ts';

/** What leadership asks of the rest of the worker. */
export interface LeadershipHooks {
  /** Announced, not on the way out, and everything watched has been read. */
  mayStand(): boolean;
  /** What others should know of this worker's planner has changed. */
  plannerFailedChanged(): void;
}

const LEAVING = 'the worker is leaving';

export class Leadership {
  readonly session: SessionKeeper;
  readonly planning: Planning;
  readonly plannerRest: PlannerRest;
  readonly #core: Core;
  readonly #hooks: LeadershipHooks;
  readonly #peers: Peers;
  readonly #chart: RunningChart<LeaderEvent>;
  readonly #candidacy: Candidacy;
  readonly #election: Election;
  readonly #balancing: Balancing;
  readonly #judging: Judging;
  readonly #assignments = new AssignmentsWatch();
  /** From the election on, a moment before the chart leads. */
  #reign: Reign | null = null;
  readonly #departed: (() => void)[] = [];

  constructor(core: Core, peers: Peers, hooks: LeadershipHooks) {
    this.#core = core;
    this.#hooks = hooks;
    this.#peers = peers;
    const send = (event: LeaderEvent): void => {
      this.#send(event);
    };
    this.#candidacy = new Candidacy(core, peers);
    this.session = new SessionKeeper(
      { ...core, gate: core.leaderGate },
      { of: 'leader', ttlMs: core.config.leaseDurationMs },
      {
        opened: () => {
          send({ type: 'session.opened' });
        },
        // The link says it (R46); the session goes on trying for as long as this worker stands.
        unopened: () => undefined,
        expired: (_, reason) => {
          this.#sessionExpired(reason);
        },
      },
    );
    this.#election = new Election(core, this.session, {
      landed: (elected) => {
        if (this.#chart.isIn('campaigning.standing')) this.#reign = this.#reignOf(elected);
      },
      won: () => {
        send({ type: 'election.won' });
      },
      lost: () => {
        this.#end();
        send({ type: 'election.lost' });
      },
    });
    this.plannerRest = new PlannerRest(core, () => {
      hooks.plannerFailedChanged();
    });
    this.planning = new Planning(core, {
      send,
      answered: () => {
        this.plannerRest.over();
      },
      failedForGood: (reason) => {
        this.plannerRest.begin();
        this.#resign(core.config.replanIntervalMs, reason);
      },
      moved: () => {
        this.inputsChanged();
      },
      known: (split) => {
        this.#reign?.reader.readSoon(split);
      },
    });
    this.#balancing = new Balancing(core, peers, hash32(0, core.fingerprint), send);
    this.#judging = new Judging(core, send);
    const { replanIntervalMs, planTimeoutMs } = core.config;
    const input = { instance: core.me, replanIntervalMs, planTimeoutMs };
    this.#chart = core.charts.start(this.#provide(), 'leader', core.me, input);
  }

  get state(): string {
    return this.#chart.state;
  }

  /** The planner's last error, for as long as it says why this worker leads in vain, or rests. */
  get plannerError(): string | null {
    return this.isLeading || this.#chart.isIn('following.resting') ? this.planning.lastError : null;
  }

  get isLeading(): boolean {
    return this.#chart.isIn('leading');
  }

  /** What has no place, as a leader sees it; null when this worker does not lead, or has not decided yet. */
  get unplaced(): Unplaced | null {
    return this.#governed === null ? null : this.#balancing.unplaced.of(this.#governed.index);
  }

  /** The planner's run that goes on now, for status; null when there is none. */
  get plannerRun(): PlannerRun | null {
    const state = /enumerating\.(\w+)/.exec(this.#chart.state)?.[1];
    const { owed } = this.planning;
    return state === undefined || owed === null ? null : { state, ...owed };
  }

  /** The term that is running; null when this worker does not lead. */
  get term(): Term | null {
    return this.isLeading && this.#reign !== null ? this.#reign.term : null;
  }

  /** Stands for election when nobody leads and it is this worker's turn; looks for the end of the job while leading. */
  advance(): void {
    if (this.#chart.isIn('following') || this.#chart.isIn('campaigning')) this.#look();
    const term = this.#governed;
    if (term === null) return;
    if (this.plannerRun?.state === 'overdue') this.#giveWay();
    if (!term.isOver) this.#judging.advance(term);
  }

  /** Runs each third of a lease: reads again what may have moved unheard (R24). */
  tick(): void {
    this.#assignments.range?.tick();
    if (this.#governed !== null && !this.#core.view.isPaused) this.#reign?.reader.tick();
  }

  leaderChanged(change: Change): void {
    const term = this.term;
    if (term === null || change.entry?.createRevision === term.createRevision) return;
    const reason = change.entry === null ? 'the leader key was deleted' : 'another leads';
    this.#send({ type: 'term.lost', reason });
  }

  planChanged(): void {
    const term = this.#governed;
    if (term === null) return;
    if (this.#core.view.plan.kind === 'absent') this.#send({ type: 'plan.lost' });
    this.#judging.planChanged();
  }

  /** A lease came, changed or went: the leader hears of ownership by it (R24). */
  leaseChanged(split: SplitId, change: Change): void {
    const index = this.#reign?.term.index;
    const before = index?.get(split)?.owner;
    this.#reign?.reader.leaseChanged(split, change);
    // A mark changes the lease and nothing that the balance depends on.
    const isMark = change.entry !== null && index?.get(split)?.owner === before;
    if (!isMark) this.inputsChanged();
  }

  /** A split was parked or put back: its record says what it is now. */
  parkedChanged(split: SplitId): void {
    this.#reign?.reader.readSoon(split);
  }

  /** Something that the balance depends on moved. */
  inputsChanged(): void {
    if (this.#governed !== null) this.#balancing.inputsChanged();
  }

  /** The worker is leaving: resign, and stand no more. */
  part(): void {
    this.#send({ type: 'worker.parting' });
  }

  /** Leads no more, for a reason that is not the term's: others get a try. */
  giveUp(reason: string): void {
    if (this.isLeading) this.#resign(0, reason);
    else this.#send({ type: 'standing.barred' });
  }

  /** Resolves once the resignation was answered, or there was none to give. */
  departed(): Promise<void> {
    if (this.#chart.hasEnded) return Promise.resolve();
    return new Promise((resolve) => {
      this.#departed.push(resolve);
    });
  }

  /** The store was replaced (R8). */
  reset(): void {
    this.session.reset();
  }

  /** The backstop for lost events. */
  check(): void {
    this.#reign?.opening.check();
    this.#judging.lookAgain();
    if (this.#governed !== null) this.#reign?.sweep.run();
  }

  /** Gives the leader session back; resolves when answered or given up. */
  closeSession(): Promise<void> {
    return this.session.close();
  }

  close(): void {
    this.#end();
    this.session.stop();
    this.#chart.stop();
  }

  /** The term in which decisions may be taken: everything was read. */
  get #governed(): Term | null {
    return this.#reign !== null && this.#chart.isIn('leading.governing') ? this.#reign.term : null;
  }

  /** Tells the chart what this worker knows about standing for election, where that is news. */
  #look(): void {
    const { view } = this.#core;
    const leader = leaderIn(view, this.session.id);
    if (leader !== 'none') this.#candidacy.leaderSeen();
    const sight = { mayStand: this.#hooks.mayStand(), leader, plan: view.plan.kind } as const;
    const type = outlookOf(sight, (state) => this.#chart.isIn(state));
    if (type === 'leader.absent') {
      this.#send({ type, delayMs: this.#candidacy.nextDelayMs() });
    } else if (type !== null) this.#send({ type });
  }

  #send(event: LeaderEvent): void {
    const before = this.#chart.state;
    this.#chart.send(event);
    if (this.#chart.hasEnded) for (const resolve of this.#departed.splice(0)) resolve();
    // An event that changed nothing is nothing to decide on: asking for a decision each time could go round for ever.
    if (this.#chart.state !== before) this.#core.mailbox.requestDecision();
  }

  /** The planner has had its time: leads no more, if another worker may do better (R59). */
  #giveWay(): void {
    if (!this.plannerRest.beginIfBetter(this.#peers.members())) return;
    const reason = `${this.planning.complaint}; another worker may try`;
    this.#send({ type: 'term.unhealthy', reason, restMs: this.#core.config.leaseDurationMs });
  }

  #resign(leastMs: number, reason: string): void {
    const restMs = this.#candidacy.restMs(this.#reign?.term.startedAtMs ?? 0, leastMs);
    this.#send({ type: 'term.unhealthy', reason, restMs });
  }

  #sessionExpired(reason: string): void {
    if (this.#chart.isIn('resigning') || this.#chart.isIn('deposed')) {
      this.#send({ type: 'term.closed' });
    } else {
      this.#send({ type: 'session.expired', reason: `the leader session ended (${reason})` });
    }
  }

  #provide(): typeof leaderMachine {
    const forTerm = (act: (term: Term) => void) => (): void => {
      if (this.#reign !== null) act(this.#reign.term);
    };
    return leaderMachine.provide({
      actions: {
        seekPlan: (_) => {
          this.#candidacy.seekPlan(() => {
            this.#send({ type: 'plan.sought' });
          });
        },
        openLeaderSession: (_) => {
          this.session.open();
        },
        closeLeaderSession: (_) => {
          this.#closeTerm();
        },
        requestElection: (_) => {
          this.#election.stand();
        },
        openTerm: (_) => {
          this.#core.mailbox.post(() => {
            this.#openTerm();
          });
        },
        takeUp: forTerm((term) => {
          this.#core.mailbox.post(() => {
            if (!term.isOver) this.#takeUp();
          });
        }),
        endTerm: ({ event }) => {
          this.#lose(event);
        },
        requestResignation: (_) => {
          this.#election.resign(() => {
            this.#send({ type: 'term.closed' });
          });
        },
        ...planningEffects(this.planning, forTerm, () => {
          this.#giveWay();
        }),
        balance: forTerm((term) => {
          this.#reign?.away.update();
          this.#balancing.balance(term, this.#reign!.failures);
        }),
        readSplits: forTerm((term) => {
          this.#judging.read(term);
        }),
        writeVerdict: forTerm((term) => {
          this.#judging.record(term);
        }),
      },
    });
  }

  /** Gives the leader session back in the background, and says that the term is closed. */
  #closeTerm(): void {
    this.#core.mailbox.hear(this.session.close(), () => {
      this.#core.mailbox.post(() => {
        if (this.#chart.isIn('deposed')) this.#send({ type: 'term.closed' });
      });
    });
  }

  #reignOf(elected: Elected): Reign {
    const parts = { peers: this.#peers, session: this.session, watch: this.#assignments };
    return newReign(this.#core, parts, elected, {
      guardFailed: () => {
        this.#send({ type: 'term.lost', reason: 'a write found that another leads, or nobody' });
      },
      unhealthy: (work) => {
        this.#resign(0, `${work} has failed for one lease`);
      },
      moved: () => {
        this.inputsChanged();
      },
      ready: () => {
        this.#send({ type: 'term.ready' });
      },
    });
  }

  #openTerm(): void {
    const reign = this.#reign;
    if (reign === null || !this.isLeading) return;
    const { generation } = reign.term;
    this.planning.lastError = null;
    this.#core.log.info('leadership.gained', 'leads the job', { generation });
    this.#core.events.emit({ type: 'leadershipGained', generation });
    reign.opening.start();
  }

  /** Takes the job up where the plan says it stands. */
  #takeUp(): void {
    const { plan } = this.#core.view;
    this.#reign?.away.awaitMissing();
    const record = plan.kind === 'seen' ? plan.plan.record : null;
    if (plan.kind === 'absent') this.#send({ type: 'plan.lost' });
    else this.#send({ type: record?.sealed === true ? 'plan.kept' : 'plan.due' });
    if (record !== null && record.verdict !== null) this.#send({ type: 'verdict.found' });
    this.#balancing.begin();
  }

  /** The term is over: nothing more of it is written. */
  #lose(event: LeaderEvent): void {
    this.#end();
    const reason = 'reason' in event ? event.reason : LEAVING;
    const level = event.type === 'worker.parting' ? 'info' : 'warn';
    this.#core.log[level]('leadership.lost', 'no longer leads', { reason });
    this.#core.events.emit({ type: 'leadershipLost', reason });
  }

  #end(): void {
    const reign = this.#reign;
    this.#reign = null;
    reign?.term.end();
    reign?.opening.close();
    this.planning.stop();
    this.#balancing.stop();
  }
}
