/** What the package exports, by name, and whose types its declarations show. A change here is a change for every user. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import ts from 'typescript';
import { LEASEHOLD_VERSION } from '../src/coordinator/api/version.ts';
import * as machines from '../machines/index.ts';
import * as leasehold from '../src/index.ts';
import * as etcd from '../src/store/etcd/index.ts';
import * as testing from '../src/testing/index.ts';

const ROOT = path.resolve(import.meta.dirname, '..');
const ENTRIES = [
  'src/index.ts',
  'src/store/etcd/index.ts',
  'src/testing/index.ts',
  'machines/index.ts',
] as const;
/** Packages that must not show through. */
const HIDDEN = ['rxjs', 'xstate', 'etcd3', '@grpc/grpc-js', 'cockatiel'];

function programOf(): ts.Program {
  const { config } = ts.readConfigFile(path.join(ROOT, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
  return ts.createProgram(
    ENTRIES.map((entry) => path.join(ROOT, entry)),
    { ...options, noEmit: true },
  );
}

const program = programOf();
const checker = program.getTypeChecker();

function exportsOf(entry: (typeof ENTRIES)[number]): ts.Symbol[] {
  const file = program.getSourceFile(path.join(ROOT, entry))!;
  return checker
    .getExportsOfModule(checker.getSymbolAtLocation(file)!)
    .map((symbol) =>
      symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
    );
}

function namesOf(entry: (typeof ENTRIES)[number]): string[] {
  const file = program.getSourceFile(path.join(ROOT, entry))!;
  return checker
    .getExportsOfModule(checker.getSymbolAtLocation(file)!)
    .map(({ name }) => name)
    .sort();
}

/** The hidden package that declares a symbol, if one does. */
function packageOf(symbol: ts.Symbol): string | undefined {
  const file = symbol.declarations?.[0]?.getSourceFile().fileName ?? '';
  return HIDDEN.find((name) => file.includes(`/node_modules/${name}/`));
}

/**
 * Follows everything that the declaration of a symbol shows to a user: types of fields, parameters and results, by name,
 * into our own files. Bodies and private members are not shown.
 */
function shownFrom(symbols: readonly ts.Symbol[]): Set<string> {
  const leaks = new Set<string>();
  const seen = new Set<ts.Symbol>();
  const visitSymbol = (symbol: ts.Symbol, from: string): void => {
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    const hidden = packageOf(target);
    if (hidden !== undefined) leaks.add(`${from} shows ${target.name} of ${hidden}`);
    if (hidden !== undefined || seen.has(target)) return;
    seen.add(target);
    for (const declaration of target.declarations ?? []) {
      if (!declaration.getSourceFile().fileName.includes('/node_modules/')) {
        visitNode(declaration, target.name);
      }
    }
  };
  const visitNode = (node: ts.Node, from: string): void => {
    if (ts.isBlock(node) || ts.isPrivateIdentifier(node)) return;
    const isPrivate =
      ts.isClassElement(node) && node.name !== undefined && ts.isPrivateIdentifier(node.name);
    if (isPrivate) return;
    if (ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node)) {
      if (node.type !== undefined) visitNode(node.type, from);
      else visitType(checker.getTypeAtLocation(node), from);
      return;
    }
    if (ts.isIdentifier(node)) {
      const symbol = checker.getSymbolAtLocation(node);
      if (symbol !== undefined && symbol.declarations?.[0] !== node.parent)
        visitSymbol(symbol, from);
      return;
    }
    ts.forEachChild(node, (child) => visitNode(child, from));
  };
  const visitType = (type: ts.Type, from: string): void => {
    const symbol = type.aliasSymbol ?? type.getSymbol();
    if (symbol !== undefined) visitSymbol(symbol, from);
  };
  for (const symbol of symbols) visitSymbol(symbol, symbol.name);
  return leaks;
}

describe('the package', () => {
  test('leasehold - exports these names and no others', () => {
    expect(namesOf('src/index.ts')).toEqual([
      'Bytes',
      'Clock',
      'CoordinationEvent',
      'CoordinatorOptions',
      'Draining',
      'ErrorCode',
      'ErrorKind',
      'EventStream',
      'Grant',
      'Handler',
      'InformationalEvent',
      'LeaseholdError',
      'LogLine',
      'Logger',
      'LossReason',
      'MemoryStore',
      'Operator',
      'OperatorOptions',
      'OwnershipEvent',
      'PlanAnswer',
      'PlanRequest',
      'PlannedSplit',
      'Planner',
      'Progress',
      'ProgressInput',
      'Random',
      'RevokeReason',
      'Split',
      'SplitCoordinator',
      'Status',
      'StopReport',
      'Store',
      'TenancyStatus',
      'Timer',
      'Transition',
      'Verdict',
      'Worker',
      'WorkerConfig',
      'WorkerOptions',
      'createCoordinator',
      'createOperator',
      'createWorker',
      'fatalPlannerError',
      'isLeaseholdError',
      'memoryStore',
    ]);
    expect(Object.keys(leasehold).sort()).toEqual([
      'LeaseholdError',
      'createCoordinator',
      'createOperator',
      'createWorker',
      'fatalPlannerError',
      'isLeaseholdError',
      'memoryStore',
    ]);
  });

  test('leasehold/testing - exports these names and no others', () => {
    expect(namesOf('src/testing/index.ts')).toEqual([
      'CallKind',
      'FaultKind',
      'FaultyStore',
      'FaultyStoreOptions',
      'HandlerContext',
      'LoggedCall',
      'LossOptions',
      'Matcher',
      'MemoryStore',
      'PartitionOptions',
      'Rule',
      'RuleBuilder',
      'RuleOptions',
      'SimulatedHandler',
      'SimulationOptions',
      'SimulationReport',
      'SimulationViolation',
      'Span',
      'StoreCall',
      'VirtualClock',
      'VirtualClockOptions',
      'WorkerClock',
      'WorkerClockOptions',
      'faultyStore',
      'looksAt',
      'memoryStore',
      'seededRandom',
      'simulate',
      'virtualClock',
      'workerClock',
      'writesTo',
    ]);
    expect(Object.keys(testing).sort()).toEqual([
      'faultyStore',
      'looksAt',
      'memoryStore',
      'seededRandom',
      'simulate',
      'virtualClock',
      'workerClock',
      'writesTo',
    ]);
  });

  test('leasehold/etcd - exports these names and no others', () => {
    expect(namesOf('src/store/etcd/index.ts')).toEqual([
      'EtcdAuthOptions',
      'EtcdStore',
      'EtcdStoreOptions',
      'EtcdTlsOptions',
      'etcdStore',
    ]);
    expect(Object.keys(etcd)).toEqual(['etcdStore']);
  });

  test('the version - that presences show is the package’s own', () => {
    const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
      version: string;
    };
    expect(LEASEHOLD_VERSION).toBe(version);
  });

  test('leasehold/machines - exports these names and no others', () => {
    expect(namesOf('machines/index.ts')).toEqual([
      'CHARTS',
      'Chart',
      'ChartName',
      'DepartureEvent',
      'FollowEvent',
      'Ignored',
      'LeaderEvent',
      'LinkEvent',
      'PeerEvent',
      'PresenceEvent',
      'SessionEvent',
      'Tag',
      'TenancyEvent',
      'WritingEvent',
      'departureMachine',
      'followMachine',
      'leaderMachine',
      'linkMachine',
      'peerMachine',
      'presenceMachine',
      'sessionMachine',
      'tenancyMachine',
      'writingMachine',
    ]);
    expect(Object.keys(machines).sort()).toEqual([
      'CHARTS',
      'departureMachine',
      'followMachine',
      'leaderMachine',
      'linkMachine',
      'peerMachine',
      'presenceMachine',
      'sessionMachine',
      'tenancyMachine',
      'writingMachine',
    ]);
  });
});

describe('declarations', () => {
  test('leasehold - shows no type of rxjs, xstate or etcd3', () => {
    expect([...shownFrom(exportsOf('src/index.ts'))]).toEqual([]);
    expect([...shownFrom(exportsOf('src/testing/index.ts'))]).toEqual([]);
  });

  test('the check - sees what shows through: charts are machines of xstate', () => {
    const leaks = [...shownFrom(exportsOf('machines/index.ts'))];
    expect(leaks).toContain('Chart shows AnyStateMachine of xstate');
  });
});
