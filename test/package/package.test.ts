/** The package as a user meets it: bundled, behind proxies, from CommonJS, and read by the strictest compiler. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { build, type Format } from 'esbuild';
import { type EtcdServer, startEtcd } from '../etcd/support/server.ts';
import { type Consumer, consumer, packed } from './packed.ts';

const BUILD_MS_MAX = 180_000;
/** Nobody listens there. */
const NO_PROXY_THERE = 'http://user:secret@127.0.0.1:9';
const PROXIES = {
  http_proxy: NO_PROXY_THERE,
  https_proxy: NO_PROXY_THERE,
  grpc_proxy: NO_PROXY_THERE,
  no_proxy: 'example.org',
};

/** Works through a job of three splits, on the names that it finds in scope. */
const WORK = `
  const store = etcdStore({ endpoints: [process.env.ENDPOINT] });
  const worker = createWorker({
    job: process.env.JOB,
    store,
    planner: {
      fingerprint: () => 'package:v1',
      plan: () => ({
        splits: ['a', 'b', 'c'].map((id) => ({ id, descriptor: id })),
        finality: 'final',
      }),
    },
  });
  worker.run(async (grant) => {
    await grant.commit({ watermark: 1, state: grant.split.id });
    await grant.complete();
  }).then(async (verdict) => {
    await worker.stop();
    await store.close();
    console.log(verdict.kind, verdict.completed, simulate.name, Object.keys(CHARTS).length > 0);
  });
`;
const ENTRIES: readonly (readonly [names: string, entry: string])[] = [
  ['createWorker', 'leasehold'],
  ['etcdStore', 'leasehold/etcd'],
  ['simulate', 'leasehold/testing'],
  ['CHARTS', 'leasehold/machines'],
];
const DONE = /^complete 3 simulate true$/m;

/** What a service writes, in types. */
const USE = `
  import { type Grant, type Planner, type Status, type WorkerOptions } from 'leasehold';
  const planner: Planner = {
    fingerprint: () => 'numbers:v1',
    plan: () => ({ splits: [{ id: 'a', descriptor: 'a' }], finality: 'final' }),
  };
  const options: WorkerOptions = {
    job: 'numbers',
    store: etcdStore({ endpoints: ['http://127.0.0.1:2379'], proxy: 'none' }),
    planner,
  };
  const worker = createWorker(options);
  export const status: Status = worker.status();
  export const handler = async (grant: Grant): Promise<void> => {
    await grant.commit({ watermark: 1n });
  };
  export const events: readonly string[] = CHARTS.flatMap(({ machine }) => machine.events);
  export const fleet = simulate({ planner, handler, workers: 2, runs: 1 });
`;

const RUN_CHART = `
  import { createActor } from 'xstate';
  import { peerMachine } from 'leasehold/machines';
  const actor = createActor(peerMachine, { input: { instance: 'a' } });
  actor.start();
  actor.send({ type: 'peer.parting' });
  console.log(actor.getSnapshot().value);
`;

let unpacked = '';
let alone = '';
let project: Consumer;
let server: EtcdServer;
let jobs = 0;

beforeAll(async () => {
  unpacked = await packed();
  project = await consumer(unpacked);
  alone = await mkdtemp(path.join(tmpdir(), 'leasehold-bundle-'));
  const imports = ENTRIES.map(([names, entry]) => `import { ${names} } from '${entry}';`);
  await project.write('program.mjs', `${imports.join('\n')}\n${WORK}`);
  server = await startEtcd();
}, BUILD_MS_MAX);
afterAll(async () => {
  await server.stop();
  await project.remove();
  await rm(alone, { recursive: true, force: true });
  await rm(path.dirname(unpacked), { recursive: true, force: true });
});

/** What a program is told: where etcd is, and which job is its own. */
function world(): Record<string, string> {
  jobs += 1;
  return { ENDPOINT: server.endpoint, JOB: `package-${jobs}` };
}

/** Bundles the program into an empty folder, where it must run without any package. */
async function bundled(format: Format): Promise<string> {
  const outfile = path.join(alone, format === 'esm' ? 'bundle.mjs' : 'bundle.cjs');
  await build({
    absWorkingDir: project.folder,
    entryPoints: ['program.mjs'],
    outfile,
    bundle: true,
    platform: 'node',
    format,
    logLevel: 'error',
  });
  return outfile;
}

describe('a bundle of esbuild', () => {
  test.each(['esm', 'cjs'] as const)('leasehold/etcd - works bundled as %s', async (format) => {
    const ended = await project.node([await bundled(format)], world());
    expect(ended.output).toMatch(DONE);
    expect(ended.code).toBe(0);
  });

  test.each(['esm', 'cjs'] as const)(
    'leasehold/etcd - works bundled as %s where the environment names proxies',
    async (format) => {
      const ended = await project.node([await bundled(format)], { ...world(), ...PROXIES });
      expect(ended.output).toMatch(DONE);
    },
  );
});

describe('an installed package', () => {
  test('leasehold/etcd - works where the environment names proxies', async () => {
    expect((await project.node(['program.mjs'], { ...world(), ...PROXIES })).output).toMatch(DONE);
  });

  test('CommonJS - has every entry by import()', async () => {
    const imports = ENTRIES.map(([name, entry]) => `const { ${name} } = await import('${entry}');`);
    await project.write('imports.cjs', `void (async () => {\n${imports.join('\n')}${WORK}})();`);
    expect((await project.node(['imports.cjs'], world())).output).toMatch(DONE);
  });

  test('CommonJS - has every entry by require', async () => {
    const requires = ENTRIES.map(([name, entry]) => `const { ${name} } = require('${entry}');`);
    await project.write('requires.cjs', requires.join('\n') + WORK);
    expect((await project.node(['requires.cjs'], world())).output).toMatch(DONE);
  });

  test('what it carries - is named with its licences', async () => {
    const file = path.join(unpacked, 'dist/THIRD-PARTY-LICENCES.txt');
    const text = await readFile(file, 'utf8');
    for (const name of ['etcd3', '@grpc/grpc-js', 'protobufjs']) {
      expect(text).toMatch(new RegExp(`^${name} [0-9.]+ \\(`, 'm'));
    }
  });
});

/** The settings that find most; some projects compile what is in `node_modules` too. */
const STRICTEST = {
  target: 'es2023',
  lib: ['es2023'],
  types: ['node'],
  noEmit: true,
  strict: true,
  skipLibCheck: false,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  noImplicitOverride: true,
  noImplicitReturns: true,
  noFallthroughCasesInSwitch: true,
  isolatedModules: true,
  verbatimModuleSyntax: true,
  erasableSyntaxOnly: true,
};
const RESOLUTIONS = [
  { module: 'node16', moduleResolution: 'node16' },
  { module: 'nodenext', moduleResolution: 'nodenext' },
  { module: 'esnext', moduleResolution: 'bundler' },
];

describe('a project with the strictest settings', () => {
  let strict: Consumer;
  const written = async (settings: object, file: string): Promise<void> => {
    const compilerOptions = { ...STRICTEST, ...settings };
    await strict.write('tsconfig.json', JSON.stringify({ compilerOptions, files: [file] }));
  };
  beforeAll(async () => {
    strict = await consumer(unpacked, ['@types/node', 'undici-types']);
    await strict.write('package.json', '{ "type": "module" }');
    const imports = ENTRIES.map(([name, entry]) => `import { ${name} } from '${entry}';`);
    const all = ENTRIES.map(
      (_, index) => `export * as entry${index} from '${ENTRIES[index]![1]}';`,
    );
    await strict.write('main.ts', [...imports, ...all, USE].join('\n'));
  });
  afterAll(() => strict.remove());

  test.each(RESOLUTIONS)('every entry - compiles with $moduleResolution', async (settings) => {
    await written(settings, 'main.ts');
    expect(await strict.compile()).toEqual({ code: 0, output: '' });
  });

  test('every entry - asks for the types of no dependency', async () => {
    await written({ ...RESOLUTIONS[0], listFiles: true }, 'main.ts');
    const { output } = await strict.compile();
    const files = output.split('\n').filter((file) => file.includes('/node_modules/'));
    const packages = files.map((file) => /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)![1]);
    expect(new Set(packages)).toEqual(
      new Set(['leasehold', '@types/node', 'undici-types', 'typescript']),
    );
  });

  test('leasehold/machines - its charts run on XState', async () => {
    const runs = await consumer(unpacked, ['@types/node', 'undici-types']);
    const settings = { ...STRICTEST, ...RESOLUTIONS[0], skipLibCheck: true };
    await runs.write('package.json', '{ "type": "module" }');
    await runs.write('tsconfig.json', JSON.stringify({ compilerOptions: settings }));
    await runs.write('run.mts', RUN_CHART);
    expect(await runs.compile()).toEqual({ code: 0, output: '' });
    await runs.write('run.mjs', RUN_CHART);
    expect((await runs.node(['run.mjs'])).output).toBe('gone\n');
    await runs.remove();
  });

  test('a mistake - is found: types are there', async () => {
    await strict.write('wrong.ts', "import { memoryStore } from 'leasehold';\nmemoryStore().nam;");
    await written(RESOLUTIONS[0]!, 'wrong.ts');
    expect((await strict.compile()).output).toMatch(/wrong\.ts.*TS2551.*'nam'/);
  });
});
