/** What goes wrong, and what people do, in every state. */
import { emptyEtcd, put } from '../etcd.ts';
import { keys } from '../model.ts';
import { requeuedRecord } from '../../../../src/protocol/tenancy-records.ts';
import { reopenedPlan } from '../../../../src/protocol/plan-records.ts';
import { isLeaving, leave } from './calls.ts';
import { die } from './leaves.ts';
import { type Add, type LifeSetting, type Lives, SPLIT } from './model.ts';
import { ghosts, planIn, splitIn } from './records.ts';

export function addFaults(
  adding: (index: number) => Add,
  setting: LifeSetting,
  lives: Lives,
): void {
  lives.workers.forEach((worker, index) => {
    if (worker.isUp) addWorkerFaults(adding(index), lives, index);
  });
  addStoreFaults(adding(0), setting);
  addHands(adding(0), setting, lives);
}

function addWorkerFaults(add: Add, { workers, denied, deniedLeaders }: Lives, index: number): void {
  const worker = workers[index]!;
  const { id } = worker;
  if (!isLeaving(worker)) add(`${id} is asked to leave`, leave, 'stops');
  add(`${id} is killed`, die, 'kills');
  if (!denied.includes(id)) {
    add(
      `the store refuses ${id}`,
      ({ lives }) => {
        lives.denied = [...lives.denied, id].sort();
      },
      'denials',
    );
  }
  if (!deniedLeaders.includes(id)) {
    add(
      `the store refuses ${id} what leaders do`,
      ({ lives }) => {
        lives.deniedLeaders = [...lives.deniedLeaders, id].sort();
      },
      'leaderDenials',
    );
  }
}

function addStoreFaults(add: Add, { instances }: LifeSetting): void {
  const replace = (lives: Lives, etcd: Lives['etcd']): void => {
    lives.etcd = etcd;
    for (const worker of lives.workers) worker.isCurrent = false;
  };
  add(
    'the store is replaced by an empty one',
    ({ lives }) => {
      replace(lives, { ...emptyEtcd(), revision: lives.etcd.revision + 1 });
    },
    'resets',
  );
  add(
    'the store is restored from a snapshot',
    ({ lives }) => {
      replace(lives, ghosts(lives.etcd.revision + 1, instances));
    },
    'resets',
  );
}

function addHands(add: Add, { instances }: LifeSetting, { etcd, drained, isPaused }: Lives): void {
  const deletes = (key: string, what: string): void => {
    if (etcd.entries[key] === undefined) return;
    add(
      `somebody deletes ${what}`,
      ({ lives }) => {
        delete lives.etcd.entries[key];
      },
      'hands',
    );
  };
  deletes(keys.plan, 'the plan');
  deletes(keys.leader, 'the leader key');
  deletes(keys.lease(SPLIT), 'the lease of s');
  for (const id of instances) {
    deletes(keys.presence(id), `the presence of ${id}`);
    deletes(keys.assignment(id), `the assignment of ${id}`);
    const isDrained = drained.includes(id);
    add(
      isDrained ? `the operator takes the drain of ${id} back` : `the operator drains ${id}`,
      ({ lives }) => {
        const others = lives.drained.filter((one) => one !== id);
        lives.drained = isDrained ? others : [...others, id].sort();
      },
      'hands',
    );
  }
  add(
    isPaused ? 'the operator lets the job go on' : 'the operator pauses the job',
    ({ lives }) => {
      lives.isPaused = !isPaused;
    },
    'hands',
  );
  if (splitIn(etcd)?.status === 'quarantined') add('the operator requeues s', requeue, 'hands');
}

function requeue({ lives: { etcd } }: { readonly lives: Lives }): void {
  const plan = planIn(etcd);
  put(etcd, keys.split(SPLIT), requeuedRecord(splitIn(etcd)!));
  if (plan !== undefined) put(etcd, keys.plan, reopenedPlan(plan));
  delete etcd.entries[keys.parked(SPLIT)];
}
