/** The job cannot go on, for a reason that lies outside this program; the message says all there is to say. */
export class JobFailedError extends Error {
  /** The exit code of the program. */
  readonly exitCode: number;

  constructor(message: string, exitCode = 1) {
    super(message);
    this.name = 'JobFailedError';
    this.exitCode = exitCode;
  }
}
