/** Ways to bring a worker `a` into every state of every chart, so that a test can begin there. */
import { TENANCY_CASES, WRITING_CASES } from './holding.ts';
import { LEADER_CASES } from './leading.ts';
import { FOLLOW_CASES, LINK_CASES } from './link.ts';
import { DEPARTURE_CASES, PEER_CASES, PRESENCE_CASES, SESSION_CASES } from './membership.ts';
import type { StateCase } from './way.ts';

export type { StateCase } from './way.ts';

/** Ways into every state of every chart that is no end. */
export const ALL_CASES: readonly StateCase[] = [
  ...TENANCY_CASES,
  ...WRITING_CASES,
  ...LEADER_CASES,
  ...PRESENCE_CASES,
  ...PEER_CASES,
  ...SESSION_CASES,
  ...DEPARTURE_CASES,
  ...LINK_CASES,
  ...FOLLOW_CASES,
];
