/**
 * The scenarios of test/SCENARIOS.md on a real etcd: all that the table wants on both stores.
 *
 * @jest-environment ./test/etcd/support/scenario-environment.js
 */
import './support/all-scenarios.ts';
