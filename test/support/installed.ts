/** Packages that a test installs beside the project. Each is kept in a temporary folder, so that the next run finds it there. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const ROOT = path.resolve(import.meta.dirname, '../..');
const INSTALL_MS_MAX = 300_000;

/**
 * The folder in which `npm install <what>` has been run, with the settings of this project.
 *
 * @param name  Says exactly what is installed, to the version or the byte: a folder of this name is taken as it is.
 */
export async function installed(name: string, what: string): Promise<string> {
  const kept = path.join(tmpdir(), `leasehold-installed-${userInfo().username}`);
  const folder = path.join(kept, name);
  if (await isThere(folder)) return folder;
  await mkdir(kept, { recursive: true });
  const made = await mkdtemp(`${folder}.`);
  try {
    await copyFile(path.join(ROOT, '.npmrc'), path.join(made, '.npmrc'));
    await writeFile(path.join(made, 'package.json'), '{ "private": true }\n');
    await promisify(execFile)('npm', ['install', '--no-package-lock', what], {
      cwd: made,
      timeout: INSTALL_MS_MAX,
    });
    // It appears whole or not at all; another test may have been faster.
    await rename(made, folder).catch(async (error: unknown) => {
      if (!(await isThere(folder))) throw error;
    });
    return folder;
  } finally {
    await rm(made, { recursive: true, force: true });
  }
}

async function isThere(folder: string): Promise<boolean> {
  return stat(folder).then(
    () => true,
    () => false,
  );
}
