/** The package as npm would install it, made from the sources as they are, and projects that use it. */
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const ROOT = path.resolve(import.meta.dirname, '../..');
const run = promisify(execFile);

/** How a program ended. */
export interface Ended {
  readonly code: number;
  /** Both streams. */
  readonly output: string;
}

/** A project in which the package is installed, with what it depends on and nothing else. */
export interface Consumer {
  readonly folder: string;
  write(name: string, content: string): Promise<void>;
  /** Runs Node with these arguments in the project. */
  node(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended>;
  /** Runs the compiler of this repository with the project's `tsconfig.json`. */
  compile(): Promise<Ended>;
  remove(): Promise<void>;
}

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
}

/** Builds and packs; the folder that was packed, unpacked. */
export async function packed(): Promise<string> {
  const made = await mkdtemp(path.join(tmpdir(), 'leasehold-packed-'));
  const source = path.join(made, 'source');
  const dist = path.join(source, 'dist');
  await mkdir(dist, { recursive: true });
  for (const name of ['package.json', 'README.md', 'LICENSE']) {
    await cp(path.join(ROOT, name), path.join(source, name));
  }
  const options = { cwd: ROOT };
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc');
  // Types are checked by whoever checks the sources.
  const build = ['-p', 'test/tools/tsconfig.build.json', '--noCheck', '--outDir', dist];
  await run(process.execPath, [tsc, ...build], options);
  await run(process.execPath, ['--import', 'tsx', 'test/tools/carry-etcd3.ts', dist], options);
  const { stdout } = await run('npm', ['pack', '--silent', '--ignore-scripts'], { cwd: source });
  await run('tar', ['-xzf', path.join(source, stdout.trim()), '-C', made]);
  return path.join(made, 'package');
}

/** @param others  Packages that the project asks for itself. */
export async function consumer(
  unpacked: string,
  others: readonly string[] = [],
): Promise<Consumer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'leasehold-consumer-'));
  const installed = path.join(folder, 'node_modules', 'leasehold');
  await cp(unpacked, installed, { recursive: true });
  const { dependencies } = JSON.parse(
    await readFile(path.join(unpacked, 'package.json'), 'utf8'),
  ) as Manifest;
  for (const name of [...Object.keys(dependencies), ...others]) {
    const link = path.join(folder, 'node_modules', name);
    await mkdir(path.dirname(link), { recursive: true });
    await symlink(path.join(ROOT, 'node_modules', name), link);
  }
  const ended = (
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<Ended> =>
    new Promise((resolve) => {
      const options = { cwd: folder, env: { PATH: process.env.PATH, ...env } };
      execFile(process.execPath, args, options, (error, stdout, stderr) => {
        const code = error === null ? 0 : Number(error.code ?? 1);
        resolve({ code, output: `${stdout}${stderr}` });
      });
    });
  return {
    folder,
    write: async (name, content) => {
      await writeFile(path.join(folder, name), content);
    },
    node: ended,
    compile: () => ended([path.join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', folder]),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
