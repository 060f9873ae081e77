/** Certificates as they are on disk now. */
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';

/** Files in PEM. They are read again whenever a connection is made anew, so that they may be replaced at any time. */
export interface EtcdTlsOptions {
  /** Who signed the servers' certificates; the authorities that Node knows when absent. */
  readonly caFile?: string;
  /** The certificate this client shows; needs `keyFile`. Its common name is the user, where etcd has users. */
  readonly certFile?: string;
  readonly keyFile?: string;
}

/** PEM, as the files hold it. */
export interface Credentials {
  readonly rootCertificate?: Buffer;
  readonly certChain?: Buffer;
  readonly privateKey?: Buffer;
}

const CERTIFICATE = '-----BEGIN CERTIFICATE-----';

/** Reads the files. @throws When one cannot be read, is no PEM, or the key is not the certificate's. */
export function readCredentials({ caFile, certFile, keyFile }: EtcdTlsOptions): Credentials {
  const rootCertificate = caFile === undefined ? undefined : readFileSync(caFile);
  const certChain = certFile === undefined ? undefined : readFileSync(certFile);
  const privateKey = keyFile === undefined ? undefined : readFileSync(keyFile);
  createSecureContext({ ca: rootCertificate, cert: certChain, key: privateKey });
  // Of an authority that is no certificate, OpenSSL says nothing; then nobody is trusted.
  if (rootCertificate !== undefined && !rootCertificate.includes(CERTIFICATE)) {
    throw new Error(`${caFile} holds no certificate in PEM`);
  }
  return {
    ...(rootCertificate === undefined ? {} : { rootCertificate }),
    ...(certChain === undefined ? {} : { certChain }),
    ...(privateKey === undefined ? {} : { privateKey }),
  };
}

/** Follows files that may be replaced at any time. */
export class Certificates {
  readonly #tls: EtcdTlsOptions;
  #last: Credentials;

  /** @throws As {@link readCredentials}. */
  constructor(tls: EtcdTlsOptions) {
    this.#tls = tls;
    this.#last = readCredentials(tls);
  }

  /** What the files hold; what they held before while they do not fit together, as when only one was replaced yet. */
  read(): Credentials {
    try {
      this.#last = readCredentials(this.#tls);
    } catch {
      // The next connection reads them again.
    }
    return this.#last;
  }
}
