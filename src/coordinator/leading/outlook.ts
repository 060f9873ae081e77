/** What a worker makes of what it sees of leaders and plan, for standing for election (R18, R20, R42). */
import type { LeaderEvent } from '../../../machines/leader/leader.events.ts';

/** What it sees. */
export interface LeaderSight {
  /** Announced, not on the way out, and everything watched has been read. */
  readonly mayStand: boolean;
  /** `own`: the key hangs on the session that this worker stands or leads under. */
  readonly leader: 'none' | 'own' | 'other';
  readonly plan: 'unknown' | 'absent' | 'seen' | 'unreadable';
}

/** The events that tell it. */
export type Outlook = Extract<
  LeaderEvent['type'],
  'standing.barred' | 'leader.seen' | 'plan.missing' | 'leader.absent'
>;

/** What is news to a chart that follows or campaigns; null when nothing is. `isIn`: whether it is in that state. */
export function outlookOf(
  { mayStand, leader, plan }: LeaderSight,
  isIn: (state: string) => boolean,
): Outlook | null {
  if (isIn('following.resting')) return null;
  const unless = (state: string, event: Outlook): Outlook | null =>
    isIn(`following.${state}`) ? null : event;
  if (!mayStand) return unless('barred', 'standing.barred');
  // What landed is told by its answer.
  if (leader === 'own') return null;
  if (leader === 'other') return unless('led', 'leader.seen');
  if (plan === 'absent') return unless('planless', 'plan.missing');
  if (plan !== 'seen') return unless('barred', 'standing.barred');
  return isIn('campaigning') ? null : unless('vacant', 'leader.absent');
}
