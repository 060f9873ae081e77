/** Finds the programs that the etcd tests run, and installs them where that is possible. */
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The path of etcd: `LEASEHOLD_ETCD`, or the first on PATH. Installs it as root on Debian. */
export async function findEtcd(): Promise<string> {
  const named = process.env.LEASEHOLD_ETCD;
  if (named === undefined || named === '') return find('etcd', 'etcd-server');
  if (isProgram(named)) return named;
  throw new Error(`LEASEHOLD_ETCD names no program: ${named}`);
}

/** The path of etcdctl: beside the etcd that `LEASEHOLD_ETCD` names, or the first on PATH. Installs it as root on Debian. */
export async function findEtcdctl(): Promise<string> {
  const named = process.env.LEASEHOLD_ETCD;
  const beside = named === undefined || named === '' ? '' : join(dirname(named), 'etcdctl');
  return beside !== '' && isProgram(beside) ? beside : find('etcdctl', 'etcd-client');
}

/** The path of the openssl command. Installs it as root on Debian. */
export function findOpenssl(): Promise<string> {
  return find('openssl', 'openssl');
}

async function find(program: string, debianPackage: string): Promise<string> {
  const found = onPath(program);
  if (found !== undefined) return found;
  if (process.getuid?.() === 0 && existsSync('/etc/debian_version')) {
    await run('sh', [join(import.meta.dirname, 'install-etcd.sh')]);
    const installed = onPath(program);
    if (installed !== undefined) return installed;
  }
  const command = `sudo apt-get update && sudo apt-get install -y ${debianPackage}`;
  throw new Error(
    `the tests need ${program} on PATH${program === 'etcd' ? ' or in LEASEHOLD_ETCD' : ''}; on Debian: ${command}`,
  );
}

function onPath(program: string): string | undefined {
  return (process.env.PATH ?? '')
    .split(delimiter)
    .map((directory) => join(directory, program))
    .find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
