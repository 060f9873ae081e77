/**
 * Puts etcd3, and all that it needs, into the one module of the package that names it: `src/store/etcd/etcd3.js` of `dist`, or
 * of the folder that is named. Runs after the compiler, as part of `npm run build`; why is in src/adr/0022.
 *
 * What comes out is a module without imports: Node's own modules are asked for as `process.getBuiltinModule` gives them, and
 * the definitions of the protocol are data in it. So it runs wherever it lies, in a package or in somebody's bundle, and in
 * either kind of module.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { builtinModules, createRequire } from 'node:module';
import path from 'node:path';
import { build, type Plugin } from 'esbuild';

const ROOT = path.resolve(import.meta.dirname, '../..');
const SOURCE = path.join(ROOT, 'src/store/etcd/etcd3.ts');
const [, , dist = path.join(ROOT, 'dist')] = process.argv;
const OUTPUT = path.join(dist, 'src/store/etcd/etcd3.js');
const LICENCES = path.join(dist, 'THIRD-PARTY-LICENCES.txt');

/** How etcd3 finds the definitions, and how it is to find them. */
const FROM_DISK = '.loadSync)(`${__dirname}/../proto/rpc.proto`,';
const FROM_DATA = (data: unknown): string => `.fromJSON)(${JSON.stringify(data)},`;

const fromHere = createRequire(import.meta.url);
const etcd3 = path.dirname(path.dirname(fromHere.resolve('etcd3')));
const loader = createRequire(path.join(etcd3, 'lib/index.js')).resolve('@grpc/proto-loader');

interface Protobuf {
  readonly Root: new () => {
    loadSync(file: string, options: object): { resolveAll(): { toJSON(): unknown } };
  };
}

/** The definitions as data, made by the library that reads them. */
function definitions(): unknown {
  const { Root } = createRequire(loader)('protobufjs') as Protobuf;
  const file = path.join(etcd3, 'proto/rpc.proto');
  return new Root().loadSync(file, { keepCase: true }).resolveAll().toJSON();
}

const definitionsAsData: Plugin = {
  name: 'definitions as data',
  setup({ onLoad }) {
    onLoad({ filter: /etcd3[\\/]lib[\\/]connection-pool\.js$/ }, ({ path: file }) => {
      const parts = readFileSync(file, 'utf8').split(FROM_DISK);
      if (parts.length !== 2) throw new Error(`${file} does not read its definitions as it did`);
      return { contents: parts.join(FROM_DATA(definitions())) };
    });
  },
};

const builtinsByName: Plugin = {
  name: 'builtins by name',
  setup({ onResolve, onLoad }) {
    const names = new RegExp(`^(node:)?(${builtinModules.join('|')})$`);
    onResolve({ filter: names }, ({ path: name }) => ({
      path: name.replace(/^node:/, ''),
      namespace: 'builtin',
    }));
    onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path: name }) => ({
      contents: `module.exports = process.getBuiltinModule('node:${name}');`,
    }));
  },
};

/** The folders of the packages that these files are from. */
function packagesOf(files: readonly string[]): string[] {
  const folders = files.flatMap((file) => {
    const found = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file);
    return found === null ? [] : [found[0]];
  });
  return [...new Set(folders)].sort();
}

/** What the licences of these packages ask to be kept with them. */
function licencesOf(folders: readonly string[]): string {
  const parts = folders.map((folder) => {
    const manifest = readFileSync(path.join(ROOT, folder, 'package.json'), 'utf8');
    const { name, version, license } = JSON.parse(manifest) as Record<string, string>;
    const file = readdirSync(path.join(ROOT, folder)).find((one) => /^licen[cs]e/i.test(one));
    const text = file === undefined ? '' : readFileSync(path.join(ROOT, folder, file), 'utf8');
    return `${name} ${version} (${license})\n\n${text.trim()}\n`;
  });
  return ['dist/src/store/etcd/etcd3.js contains these packages.\n', ...parts].join(
    `\n${'-'.repeat(80)}\n\n`,
  );
}

const { metafile } = await build({
  absWorkingDir: ROOT,
  entryPoints: [SOURCE],
  outfile: OUTPUT,
  allowOverwrite: true,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  // grpc-js would bring one of its own, for services that only a server has.
  alias: { '@grpc/proto-loader': loader },
  legalComments: 'none',
  metafile: true,
  plugins: [builtinsByName, definitionsAsData],
});
writeFileSync(LICENCES, licencesOf(packagesOf(Object.keys(metafile.inputs))));
