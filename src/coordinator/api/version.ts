/** The version that presences show. Written by `npm run docs` from package.json. */
export const LEASEHOLD_VERSION = '0.2.0';
