/**
 * The later versions of Node that a user may run: `npm run check`, and all tests but those on etcd and of the examples.
 * Node comes from the registry, as the package that holds the program for this machine.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { installed } from './support/installed.ts';

const ROOT = path.resolve(import.meta.dirname, '..');
const NODES = ['22.23.5', '24.22.3'];
/** Files whose path has this in it; a filtered run is not asked what test/SCENARIOS.md promises. */
const TESTS = `${ROOT.replaceAll(/[^\w/]/g, '\\$&')}/test/(?!etcd/|examples/)`;
const RUN_MS_MAX = 45 * 60_000;
const INSTALL_MS_MAX = 10 * 60_000;
const LINES_SHOWN = 150;

let running: ChildProcess | undefined;
afterEach(() => {
  end();
});

/** Ends what runs; npm tells what it has started. */
function end(): void {
  running?.kill('SIGTERM');
}

/** Runs npm with a Node of its own, first on PATH; resolves with what it printed when it has succeeded. */
async function npm(bin: string, ...args: string[]): Promise<string[]> {
  const child = spawn('npm', args, {
    cwd: ROOT,
    env: {
      ...process.env,
      PATH: [bin, process.env.PATH].join(path.delimiter),
      // Set by the Jest that runs this.
      JEST_WORKER_ID: undefined,
      NODE_ENV: undefined,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running = child;
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const timer = setTimeout(end, RUN_MS_MAX);
  const [code] = (await once(child, 'close')) as [number | null];
  clearTimeout(timer);
  running = undefined;
  const lines = output.trimEnd().split('\n');
  if (code === 0) return lines;
  throw new Error(`npm ${args.join(' ')}: ${code}\n${lines.slice(-LINES_SHOWN).join('\n')}`);
}

/** The folder with the program of one version of Node. */
async function nodeBin(number: string): Promise<string> {
  const { platform, arch } = process;
  const kind = platform === 'darwin' && arch === 'arm64' ? 'node-bin' : 'node';
  const name = `${kind}-${platform}-${arch}`;
  const folder = await installed(`node-${number}-${platform}-${arch}`, `${name}@${number}`);
  return path.join(folder, 'node_modules', name, 'bin');
}

describe.each(NODES)('Node %s', (number) => {
  const say = (what: string): void => void process.stdout.write(`Node ${number}: ${what}\n`);

  test(
    'Node versions - this one is there, and is what npm runs',
    async () => {
      const bin = await nodeBin(number);
      expect((await npm(bin, 'exec', '-c', 'node --version')).at(-1)).toBe(`v${number}`);
    },
    INSTALL_MS_MAX,
  );

  test(
    'Node versions - the checks pass',
    async () => {
      const startMs = performance.now();
      await npm(await nodeBin(number), 'run', 'check');
      say(`npm run check passed, ${Math.round((performance.now() - startMs) / 1000)} s`);
    },
    RUN_MS_MAX + 10_000,
  );

  test(
    'Node versions - the tests pass that need no etcd',
    async () => {
      const startMs = performance.now();
      const summary = (await npm(await nodeBin(number), 'test', '--silent', '--', TESTS)).at(-1)!;
      say(`${summary}, ${Math.round((performance.now() - startMs) / 1000)} s`);
      expect(summary).toMatch(/^[1-9]\d* passed, 0 failed, 0 skipped$/);
    },
    RUN_MS_MAX + 10_000,
  );
});
