/** A host name whose addresses a test decides. It is known to this process alone, and to whatever looks it up here. */
import dns from 'node:dns';
import { atEnd } from './cleanup.ts';

/** Never known to a real resolver. */
const SUFFIX = '.test.invalid';

export class HostName {
  readonly name: string;
  /** How often it was looked up. */
  lookups = 0;
  #addresses: readonly string[];
  readonly #lookup = dns.promises.lookup;
  readonly #forget: () => void;

  constructor(name: string, ...addresses: readonly string[]) {
    this.name = name + SUFFIX;
    this.#addresses = addresses;
    const lookup = async (host: string, options: dns.LookupOptions): Promise<unknown> => {
      if (host !== this.name) return this.#lookup(host, options);
      this.lookups += 1;
      if (this.#addresses.length === 0) throw new Error(`getaddrinfo ENOTFOUND ${host}`);
      return this.#addresses.map((address) => ({ address, family: 4 }));
    };
    dns.promises.lookup = lookup as typeof dns.promises.lookup;
    this.#forget = atEnd(() => {
      this.stop();
      return Promise.resolve();
    });
  }

  /** From now on it stands for these, the first one first; for none, it is not known. */
  resolveTo(...addresses: readonly string[]): void {
    this.#addresses = addresses;
  }

  /** It is forgotten. */
  stop(): void {
    dns.promises.lookup = this.#lookup;
    this.#forget();
  }
}
