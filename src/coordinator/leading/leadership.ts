/**
 * Leadership of one worker: carries out what the leader chart decides, and holds the term while it lasts.
 *
 * Rules: R3, R15, R18-R20, R42. The leader key hangs on a session of its own.
 */
import type { LeaderEvent } from '../../../machines/leader/leader.events.ts';
import { leaderMachine } from '../../../machines/leader/leader.machine.ts';
import { hash32 } from '../../base/hash.ts';
import type { SplitId } from '../../base/ids.ts';
import type { Change } from '../../store/port.ts';
import type { Core } from '../link/core.ts';
import { SessionKeeper } from '../link/session-keeper.ts';
import type { RunningChart } from '../loop/chart-host.ts';
import type { Peers } from '../membership/peers.ts';
import { AwayNotes } from './away-notes.ts';
import { Balancing } from './balancing.ts';
import { Candidacy } from './candidacy.ts';
import { type Elected, Election } from './election.ts';
import { Judging } from './judging.ts';
import { outlookOf } from './outlook.ts';
import { Planning } from './planning.ts';
import { ProbeSweep } from './probe-sweep.ts';
import { SplitReader } from './split-reader.ts';
import { Term } from './term.ts';
import { AssignmentsWatch, TermOpening } from './term-opening.ts';

/** What leadership asks of the rest of the worker. */
export interface LeadershipHooks {
  /** Announced, not on the way out, and everything watched has been read. */
  mayStand(): boolean;
}

/** What belongs to one term, and ends with it. */
interface Reign {
  readonly term: Term;
  readonly reader: SplitReader;
  readonly opening: TermOpening;
  readonly away: AwayNotes;
  readonly sweep: ProbeSweep;
}

const LEAVING = 'the worker is leaving';

export class Leadership {
  readonly session: SessionKeeper;
  readonly planning: Planning;
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
        if (this.#chart.isIn('campaigning.standing')) this.#reign = this.#newReign(elected);
      },
      won: () => {
        send({ type: 'election.won' });
      },
      lost: () => {
        this.#end();
        send({ type: 'election.lost' });
      },
    });
    this.planning = new Planning(core, {
      send,
      resign: (leastMs, reason) => {
        this.#resign(leastMs, reason);
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
    const { replanIntervalMs } = core.config;
    const input = { instance: core.me, replanIntervalMs };
    this.#chart = core.charts.start(this.#provide(), 'leader', core.me, input);
  }

  get state(): string {
    return this.#chart.state;
  }

  get isLeading(): boolean {
    return this.#chart.isIn('leading');
  }

  /** The term that is running; null when this worker does not lead. */
  get term(): Term | null {
    return this.isLeading && this.#reign !== null ? this.#reign.term : null;
  }

  /** Stands for election when nobody leads and it is this worker's turn; looks for the end of the job while leading. */
  advance(): void {
    if (this.#chart.isIn('following') || this.#chart.isIn('campaigning')) this.#look();
    const term = this.#governed;
    if (term !== null) this.#judging.advance(term);
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
    const isLed = view.leader !== null || view.isLeaderUnreadable;
    if (isLed) this.#candidacy.leaderSeen();
    if (isLed && view.leader?.record.owner !== this.#core.me) this.planning.lastError = null;
    const { id } = this.session;
    // A key on no session, put back by hand, is nobody's own.
    const isOwn = id !== null && view.leader?.session === id;
    const leader = !isLed ? 'none' : isOwn ? 'own' : 'other';
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
        startPlanner: forTerm((term) => {
          this.planning.start(term);
        }),
        seedSplits: forTerm((term) => {
          this.planning.seed(term);
        }),
        publishPlan: forTerm((term) => {
          this.planning.publish(term);
        }),
        recreatePlan: forTerm((term) => {
          this.planning.recreate(term);
        }),
        balance: forTerm((term) => {
          this.#reign?.away.update();
          this.#balancing.balance(term);
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
    void this.session.close().then(() => {
      this.#core.mailbox.post(() => {
        if (this.#chart.isIn('deposed')) this.#send({ type: 'term.closed' });
      });
    });
  }

  #newReign(elected: Elected): Reign {
    const core = this.#core;
    const term = new Term(core, this.session, elected, {
      guardFailed: () => {
        const reason = 'a write found that another leads, or nobody';
        this.#send({ type: 'term.lost', reason });
      },
      unhealthy: (work) => {
        this.#resign(0, `${work} has failed for one lease`);
      },
    });
    const reader = new SplitReader(core, term, this.#peers, () => {
      this.inputsChanged();
    });
    const away = new AwayNotes(core, term, this.#peers);
    const opening = new TermOpening(core, { term, reader, away, watch: this.#assignments }, () => {
      this.#send({ type: 'term.ready' });
    });
    return { term, reader, opening, away, sweep: new ProbeSweep(core, term) };
  }

  #openTerm(): void {
    const reign = this.#reign;
    if (reign === null || !this.isLeading) return;
    const { generation } = reign.term;
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
