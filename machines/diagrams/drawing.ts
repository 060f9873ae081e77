/** A chart, what of it is shown, and where. */
import type { Chart } from '../index.ts';
import type { Layout } from './layout.ts';
import type { Picture } from './model.ts';

export interface Drawing {
  readonly chart: Chart;
  readonly picture: Picture;
  readonly layout: Layout;
}
