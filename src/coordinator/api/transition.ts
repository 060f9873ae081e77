/** The feed that operators and tests watch. */
import type { ChartName } from '../../../machines/charts.ts';

/** One transition of one chart, as operators see it. JSON. */
export interface Transition {
  /** Monotonic milliseconds of the worker's clock. */
  readonly at: number;
  readonly chart: ChartName;
  /** The split, instance or lane that the chart is about. */
  readonly id: string;
  readonly event: string;
  readonly from: string;
  readonly to: string;
}
