/** What a tenancy tells its owner. */
import type { Tenancy } from './tenancy.ts';

/** What a tenancy tells its owner. */
export interface TenancyHooks {
  ended(tenancy: Tenancy): void;
  /** It got further, or to its end. */
  progressed(tenancy: Tenancy): void;
  /** It is no suspect any more, though it has not got further. */
  survived(tenancy: Tenancy): void;
  /** It is about to fail; true when another split bears witness that this one alone does (R31). */
  failing(tenancy: Tenancy, sinceMs: number): boolean;
}
