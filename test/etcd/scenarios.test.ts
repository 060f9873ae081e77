/**
 * A handful of the scenarios of test/SCENARIOS.md on a real etcd: the first of each heading that the table wants on both
 * stores. All of them: scenarios.soak.ts.
 *
 * @jest-environment ./test/etcd/support/scenario-environment.js
 * @handful
 */
import './support/all-scenarios.ts';
