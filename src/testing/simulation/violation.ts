/** One broken promise. */
export interface SimulationViolation {
  /** Which promise. */
  readonly check: string;
  readonly text: string;
}
