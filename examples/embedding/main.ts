import { createWorker, type Handler, memoryStore, type Planner } from '../../src/index.ts';
const planner: Planner = {
  fingerprint: () => 'numbers:v1',
  plan: () => ({
    splits: [0, 100, 200, 300].map((from) => ({ id: `from-${from}`, descriptor: String(from) })),
    finality: 'final',
  }),
};
const handler: Handler = async (grant) => {
  const from = Number(Buffer.from(grant.split.descriptor).toString());
  let done = Number(grant.progress?.watermark ?? 0); // where the last owner left off
  let sum = Number(Buffer.from(grant.progress?.state ?? '0').toString());
  while (done < 100) {
    for (const end = done + 10; done < end; done += 1) sum += from + done;
    await grant.commit({ watermark: done, state: String(sum) }); // position and result, at once
    if (grant.draining.requested) return; // asked back: all that was done is committed
  }
  await grant.complete();
  console.log(`${grant.split.id}: ${sum}, epoch ${grant.epoch}`);
};
const store = memoryStore();
const workers = ['a', 'b'].map((instanceId) =>
  createWorker({ job: 'numbers', store, instanceId, planner }),
);
console.log((await Promise.all(workers.map((worker) => worker.run(handler))))[0]);
