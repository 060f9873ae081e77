/** The versions of Leasehold that share a fleet: those that were released, kept in test/fixtures, and the tree as it is. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { installed } from '../../../support/installed.ts';

/** Where the modules of one version are; addresses that `import` takes. */
export interface Entry {
  readonly main: string;
  readonly etcd: string;
  /** Inside the package: how it reads what is stored. */
  readonly records: string;
  readonly keys: string;
}

export interface Version {
  readonly name: string;
  /** What its package.json says, and so what its workers must say of themselves. */
  readonly number: string;
  readonly entry: Entry;
  /** Fields that its workers add to everything they store, in place of those that a later version will really have. */
  readonly adds?: Readonly<Record<string, unknown>>;
}

const ROOT = path.resolve(import.meta.dirname, '../../../..');

/** A released version, from `npm pack` of its time; installed with its dependencies. */
export async function released(number: string): Promise<Version> {
  const archive = path.join(ROOT, `test/fixtures/leasehold-${number}.tgz`);
  const hash = createHash('sha256')
    .update(await readFile(archive))
    .digest('hex')
    .slice(0, 16);
  const folder = await installed(`leasehold-${number}-${hash}`, archive);
  // As a program that was installed beside it resolves it.
  const { resolve } = createRequire(path.join(folder, 'program.js'));
  const home = path.dirname(resolve('leasehold/package.json'));
  return {
    name: number,
    number: await numberIn(home),
    entry: {
      main: urlOf(resolve('leasehold')),
      etcd: urlOf(resolve('leasehold/etcd')),
      records: urlOf(path.join(home, 'dist/src/records/records.js')),
      keys: urlOf(path.join(home, 'dist/src/records/keys.js')),
    },
  };
}

/** The tree as it is. */
export async function present(): Promise<Version> {
  const at = (file: string): string => urlOf(path.join(ROOT, 'src', file));
  return {
    name: 'now',
    number: await numberIn(ROOT),
    entry: {
      main: at('index.ts'),
      etcd: at('store/etcd/index.ts'),
      records: at('records/records.ts'),
      keys: at('records/keys.ts'),
    },
  };
}

/** The tree as it is, but that everything it stores shows the next schema, readable for the present one, and a new field. */
export async function later(): Promise<Version> {
  const adds = { schema: 2, later: { list: [1, 2], text: 'of a later version' } };
  return { ...(await present()), name: 'later', adds };
}

async function numberIn(home: string): Promise<string> {
  const text = await readFile(path.join(home, 'package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

function urlOf(file: string): string {
  return pathToFileURL(file).href;
}
