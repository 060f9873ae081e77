/** The parts of a worker that run charts. A chart that hangs on an input has a part for each. */
import type { ChartName } from '../../../../machines/index.ts';
import { departurePart } from './departure-part.ts';
import { followPart } from './follow-part.ts';
import { leaderPart } from './leader-part.ts';
import { linkPart } from './link-part.ts';
import type { Part } from './part.ts';
import { peerPart } from './peer-part.ts';
import { presencePart } from './presence-part.ts';
import { sessionPart } from './session-part.ts';
import { tenancyPart } from './tenancy-part.ts';
import { writingPart } from './writing-part.ts';

/** Each part has a world and a model of its own, which only the part itself looks into. */
const plain = (part: unknown): Part => part as Part;

export const PARTS: Readonly<Record<ChartName, readonly Part[]>> = {
  tenancy: [plain(tenancyPart)],
  leader: [plain(leaderPart)],
  presence: [plain(presencePart)],
  session: [plain(sessionPart('worker')), plain(sessionPart('leader'))],
  departure: [plain(departurePart('stopped')), plain(departurePart('failed'))],
  link: [plain(linkPart)],
  follow: [plain(followPart('control/')), plain(followPart('assign/'))],
  peer: [plain(peerPart(10_000)), plain(peerPart(0))],
  writing: [plain(writingPart)],
};
