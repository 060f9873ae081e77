/** The version that presences show: the package's own, held by a test. */
export const LEASEHOLD_VERSION = '0.2.0';
