/** A certificate authority for tests, made with the openssl command. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findOpenssl } from './binary.ts';
import { atEnd } from './cleanup.ts';
import type { EtcdTls } from '../server.ts';

const run = promisify(execFile);

/** A certificate and its key, in files that `renew` replaces and as PEM at the time of asking. */
export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  /** The present content of the files. */
  read(): Promise<{ cert: string; key: string }>;
  /** Replaces both files, each in one step, by a new certificate of the same name. */
  renew(validForSeconds?: number): Promise<void>;
}

export interface CertificateAuthority {
  readonly directory: string;
  readonly caFile: string;
  /** As PEM. */
  readonly ca: string;
  /** Of a server on 127.0.0.1 and localhost. */
  readonly server: Certificate;
  /** A certificate for a client; etcd takes its common name for the user. */
  client(commonName: string, validForSeconds?: number): Promise<Certificate>;
  /** What `startEtcd` takes. */
  tls(options?: { requireClientCertificate?: boolean }): Promise<EtcdTls>;
  stop(): Promise<void>;
}

const DAY_SECONDS = 86_400;
/** The clocks of both ends may differ. */
const VALID_SINCE_SECONDS = 60;

const CONFIG = `
[ca]
default_ca = authority
[authority]
default_md = sha256
rand_serial = yes
unique_subject = no
policy = any
copy_extensions = none
[any]
commonName = supplied
[server]
basicConstraints = CA:FALSE
subjectAltName = IP:127.0.0.1, DNS:localhost
# etcd's own gateway shows the certificate of the server as a client's.
extendedKeyUsage = serverAuth, clientAuth
[client]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
`;

export async function createCertificates(): Promise<CertificateAuthority> {
  const openssl = await findOpenssl();
  const directory = await mkdtemp(join(tmpdir(), 'leasehold-certificates-'));
  const authority = new OpensslAuthority(openssl, directory);
  await authority.create();
  return authority;
}

class OpensslAuthority implements CertificateAuthority {
  readonly directory: string;
  readonly caFile: string;
  ca = '';
  readonly #openssl: string;
  readonly #forget: () => void;
  #server: Certificate | undefined;
  #harness: Certificate | undefined;
  #issued = 0;

  constructor(openssl: string, directory: string) {
    this.#openssl = openssl;
    this.directory = directory;
    this.caFile = join(directory, 'ca.pem');
    this.#forget = atEnd(() => this.stop());
  }

  get server(): Certificate {
    if (this.#server === undefined) throw new Error('the authority is not created yet');
    return this.#server;
  }

  async create(): Promise<void> {
    await writeFile(this.#path('openssl.cnf'), CONFIG);
    await this.#run([
      ...['req', '-x509', '-days', '1', '-subj', '/CN=leasehold tests', ...NEW_KEY],
      ...['-keyout', this.#path('ca.key'), '-out', this.caFile],
      ...['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=keyCertSign'],
    ]);
    this.ca = await readFile(this.caFile, 'utf8');
    [this.#server, this.#harness] = await Promise.all([
      this.#issue('localhost', 'server', DAY_SECONDS),
      this.client('harness'),
    ]);
  }

  client(commonName: string, validForSeconds = DAY_SECONDS): Promise<Certificate> {
    return this.#issue(commonName, 'client', validForSeconds);
  }

  async tls(options: { requireClientCertificate?: boolean } = {}): Promise<EtcdTls> {
    const { cert, key } = await this.#harness!.read();
    return {
      serverCertFile: this.server.certFile,
      serverKeyFile: this.server.keyFile,
      caFile: this.caFile,
      requireClientCertificate: options.requireClientCertificate ?? false,
      ca: this.ca,
      clientCert: cert,
      clientKey: key,
    };
  }

  async stop(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
    this.#forget();
  }

  async #issue(
    commonName: string,
    use: 'server' | 'client',
    validForSeconds: number,
  ): Promise<Certificate> {
    this.#issued += 1;
    const base = this.#path(`${use}-${this.#issued}`);
    const certFile = `${base}.pem`;
    const keyFile = `${base}.key`;
    const renew = async (seconds = DAY_SECONDS): Promise<void> => {
      const made = await this.#sign(commonName, use, seconds);
      await rename(made.keyFile, keyFile);
      await rename(made.certFile, certFile);
    };
    await renew(validForSeconds);
    const read = async (): Promise<{ cert: string; key: string }> => ({
      cert: await readFile(certFile, 'utf8'),
      key: await readFile(keyFile, 'utf8'),
    });
    return { certFile, keyFile, read, renew };
  }

  async #sign(
    commonName: string,
    use: 'server' | 'client',
    validForSeconds: number,
  ): Promise<{ certFile: string; keyFile: string }> {
    // A directory each: the database of `openssl ca` bears one writer only.
    const work = await mkdtemp(this.#path('sign-'));
    const [request, certFile, keyFile] = ['request.pem', 'cert.pem', 'key.pem'].map((name) =>
      join(work, name),
    ) as [string, string, string];
    await writeFile(join(work, 'index'), '');
    await writeFile(
      join(work, 'openssl.cnf'),
      CONFIG.replace(
        '[authority]',
        `[authority]\ndatabase = ${join(work, 'index')}\nnew_certs_dir = ${work}`,
      ),
    );
    await this.#run([
      ...['req', '-new', '-subj', `/CN=${commonName}`, ...NEW_KEY],
      ...['-keyout', keyFile, '-out', request],
    ]);
    const nowMs = Date.now();
    await this.#run([
      ...['ca', '-batch', '-notext', '-config', join(work, 'openssl.cnf')],
      ...['-cert', this.caFile, '-keyfile', this.#path('ca.key'), '-extensions', use],
      ...['-startdate', timeOf(nowMs - VALID_SINCE_SECONDS * 1_000)],
      ...['-enddate', timeOf(nowMs + validForSeconds * 1_000)],
      ...['-in', request, '-out', certFile],
    ]);
    return { certFile, keyFile };
  }

  async #run(args: readonly string[]): Promise<void> {
    await run(this.#openssl, args, { cwd: this.directory });
  }

  #path(name: string): string {
    return join(this.directory, name);
  }
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'] as const;

/** As openssl takes it, to the second: `20300131235959Z`. */
function timeOf(ms: number): string {
  return `${new Date(ms).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`;
}
