/**
 * One worker's candidacies: creates the leader key and raises the generation in one transaction (T3), settles what is not
 * answered, and takes the key back (T14). Rules: R1, R3, R19, R20.
 */
import { ABSENT, type Revision } from '../../base/decimals.ts';
import type { SessionId } from '../../base/ids.ts';
import { isHeld, settleElection } from '../../protocol/settle.ts';
import { electedPlan } from '../../protocol/plan-records.ts';
import { electTxn, resignTxn } from '../../protocol/transactions.ts';
import type { Stamp } from '../../records/codec.ts';
import { leaderCodec, planCodec, type PlanRecord } from '../../records/records.ts';
import { NO_GUARD, type WriteAnswer } from '../link/batcher.ts';
import type { Core } from '../link/core.ts';
import type { Seen } from '../link/fleet-view.ts';
import type { SessionKeeper } from '../link/session-keeper.ts';

/** An election that landed. */
export interface Elected {
  readonly generation: number;
  /** Of the leader key; its term is told by it. */
  readonly createRevision: Revision;
  /** The session that the leader key hangs on. */
  readonly session: SessionId;
}

/** How an election went. */
export interface ElectionHooks {
  /** The key was written at this revision; told before the view shows it. */
  readonly landed: (elected: Elected) => void;
  /** It landed, and is held. */
  readonly won: () => void;
  readonly lost: () => void;
}

interface SentElection {
  readonly session: SessionId;
  readonly stamp: Stamp;
  readonly plan: PlanRecord;
  readonly leaderValue: string;
  readonly planValue: string;
}

export class Election {
  readonly #core: Core;
  readonly #session: SessionKeeper;
  readonly #hooks: ElectionHooks;

  constructor(core: Core, session: SessionKeeper, hooks: ElectionHooks) {
    this.#core = core;
    this.#session = session;
    this.#hooks = hooks;
  }

  /** Stands for election on the plan as it is known; the hooks hear how it went. */
  stand(): void {
    const { plan } = this.#core.view;
    const { id } = this.#session;
    if (plan.kind !== 'seen' || id === null) {
      this.#core.mailbox.post(() => {
        this.#hooks.lost();
      });
      return;
    }
    this.#put(id, plan.plan);
  }

  /** Deletes the leader key if it is still this term's (T14); if that cannot land, the session runs out (R18). */
  resign(closed: () => void): void {
    const core = this.#core;
    const { id } = this.#session;
    const createRevision = core.view.leader?.createRevision ?? ABSENT;
    this.#session.stopRenewing();
    core.batcher.enqueue({
      name: 'resign',
      isSessionBound: false,
      guard: NO_GUARD,
      build: () => resignTxn(core.keys, { createRevision, session: id }),
      matters: () => this.#session.id === id,
      answered: (answer) => {
        if (answer.kind === 'refused' && answer.error.kind !== 'fenced') return;
        if (answer.kind === 'committed') core.view.wrote(core.keys.leader, null, answer.revision);
        void this.#session.close();
        closed();
      },
    });
  }

  #put(session: SessionId, seen: Pick<Seen<PlanRecord>, 'record' | 'modRevision'>): void {
    const core = this.#core;
    const stamp = core.stamp();
    const plan = electedPlan(seen.record);
    const { generation } = plan;
    const leader = { owner: core.me, nonce: core.nonce, generation };
    const sent: SentElection = {
      session,
      stamp,
      plan,
      leaderValue: leaderCodec.encode(leader, stamp),
      planValue: planCodec.encode(plan, stamp),
    };
    const values = { leader: sent.leaderValue, plan: sent.planValue };
    const txn = electTxn(core.keys, values, { planRevision: seen.modRevision, session });
    core.batcher.enqueue({
      name: 'elect',
      isSessionBound: true,
      guard: NO_GUARD,
      build: () => txn,
      matters: () => this.#session.id === session,
      isImpatient: true,
      answered: (answer) => {
        this.#onAnswer(sent, answer);
      },
    });
  }

  #onAnswer(sent: SentElection, answer: WriteAnswer): void {
    switch (answer.kind) {
      case 'committed':
        this.#elected(sent, answer.revision);
        return;
      case 'conflict':
        this.#onConflict(sent, answer);
        return;
      case 'refused':
        if (answer.error.kind !== 'fenced') this.#hooks.lost();
        // A session opened since is another one.
        else this.#session.gone(sent.session);
        return;
      case 'abandoned':
      case 'guardFailed':
        return;
    }
  }

  #onConflict(sent: SentElection, answer: WriteAnswer & { kind: 'conflict' }): void {
    const [leader = null, plan = null] = answer.found;
    const { view, keys } = this.#core;
    const decoded = leader === null ? null : leaderCodec.decode(leader.value);
    const meaning = settleElection(sent.stamp, decoded);
    if (meaning === 'landed') {
      this.#elected(sent, leader!.modRevision);
      return;
    }
    view.found(keys.leader, leader, answer.revision);
    view.found(keys.plan, plan, answer.revision);
    // Only the plan has moved: stand again on what it says now.
    const seen = view.plan;
    if (meaning === 'again' && seen.kind === 'seen' && this.#session.id === sent.session) {
      this.#put(sent.session, seen.plan);
      return;
    }
    this.#hooks.lost();
  }

  #elected(sent: SentElection, revision: Revision): void {
    const core = this.#core;
    const { view, keys } = core;
    const { generation } = sent.plan;
    this.#hooks.landed({ generation, createRevision: revision, session: sent.session });
    view.wrote(keys.plan, sent.planValue, revision);
    view.wrote(keys.leader, sent.leaderValue, revision, sent.session);
    // Landed is not held: the key must show under the session this candidacy has now (R3).
    const isOurs =
      isHeld(view.leader, this.#session.id, ({ nonce }) => nonce === core.nonce) &&
      view.leader?.modRevision === revision;
    if (isOurs && this.#session.isValid()) this.#hooks.won();
    else this.#hooks.lost();
  }
}
