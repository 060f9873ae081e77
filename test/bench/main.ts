/**
 * Benchmarks: `npm run bench -- <which> [--json]`. With `--json`, exactly one JSON document goes to standard output.
 */

/** A benchmark: prints its figures and returns the exit code. */
interface Bench {
  run(flags: readonly string[], print: (line: string) => void): number | Promise<number>;
}

/** Loaded only when asked for, so that one benchmark does not measure another's modules. */
const BENCHES: Readonly<Record<string, () => Promise<Bench>>> = {
  assign: () => import('./assign.ts'),
  core: () => import('./core.ts'),
  etcd: () => import('./etcd.ts'),
  scale: () => import('./scale/run.ts'),
};

async function main([which = '', ...flags]: readonly string[]): Promise<number> {
  const load = Object.hasOwn(BENCHES, which) ? BENCHES[which] : undefined;
  if (load === undefined) {
    const names = Object.keys(BENCHES).join(' | ');
    process.stderr.write(`usage: npm run bench -- ${names} [--json]\n`);
    return 2;
  }
  const bench = await load();
  return bench.run(flags, (line) => process.stdout.write(`${line}\n`));
}

process.exitCode = await main(process.argv.slice(2));
