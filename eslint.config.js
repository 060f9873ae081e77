import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

const TIMERS =
  'Use the injected clock: clock.setTimeout, clock.sleep, or a named delay in a chart.';

/** Files a person can read in one sitting. */
const atMost = (/** @type {number} */ max) => ({ 'max-lines': ['error', { max }] });

/** Every export has a name. */
const namedExports = {
  selector: 'ExportAllDeclaration',
  message: 'Name each export.',
};

/** The protocol decides; it neither waits nor asks the time, and it stops only for a bug. */
const impure = [
  {
    selector:
      ':matches(FunctionDeclaration, FunctionExpression, ArrowFunctionExpression)[async=true]',
    message: 'Return the decision; the coordinator acts on it.',
  },
  { selector: 'AwaitExpression', message: 'Return the decision; the coordinator acts on it.' },
  {
    selector: 'ThrowStatement:not([argument.callee.name="InvariantViolation"])',
    message: 'Return an outcome; only InvariantViolation is thrown.',
  },
  {
    selector: 'TSTypeReference[typeName.name="Promise"]',
    message: 'Take it as a value from the caller.',
  },
];
const impureGlobals = ['Promise', 'Date', 'process', 'queueMicrotask'].map((name) => ({
  name,
  message: 'Take it as a value from the caller.',
}));

/** What reaches the outside world without a port, and the port to use in its place. */
const ambientGlobals = [
  { name: 'setTimeout', message: TIMERS },
  { name: 'setInterval', message: TIMERS },
  { name: 'setImmediate', message: TIMERS },
  { name: 'clearTimeout', message: TIMERS },
  { name: 'clearInterval', message: TIMERS },
  { name: 'performance', message: 'Use clock.nowMs() of the injected clock.' },
  { name: 'console', message: 'Use the injected logger.' },
];

const ambientProperties = [
  { object: 'Date', property: 'now', message: 'Use clock.nowMs(), or clock.wallMs() for display.' },
  { object: 'Math', property: 'random', message: 'Use the injected random.' },
  { object: 'AbortSignal', property: 'timeout', message: TIMERS },
  { object: 'process', property: 'exit', message: 'Throw, or report a fatal error to the caller.' },
  ...ambientGlobals.map(({ name, message }) => ({ object: 'globalThis', property: name, message })),
];

const ambientSyntax = [
  {
    selector: 'NewExpression[callee.name="Date"]',
    message: 'Use clock.wallMs() of the injected clock; a date is for display only.',
  },
  {
    selector: 'CallExpression[callee.name="Date"]',
    message: 'Use clock.wallMs() of the injected clock; a date is for display only.',
  },
];

export default defineConfig(
  { ignores: ['dist/', '.bench/', 'coverage/', 'node_modules/'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      eqeqeq: 'error',
      'no-var': 'error',
      'no-warning-comments': ['error', { terms: ['fixme'], location: 'anywhere' }],
      'prefer-const': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/consistent-type-exports': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrorsIgnorePattern: '^_' },
      ],
      // A signal's reason is passed on as it came, whatever it is.
      '@typescript-eslint/only-throw-error': [
        'error',
        { allowThrowingAny: true, allowThrowingUnknown: true },
      ],
      '@typescript-eslint/prefer-promise-reject-errors': [
        'error',
        { allowThrowingAny: true, allowThrowingUnknown: true },
      ],
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true, allowNullish: true },
      ],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-unnecessary-condition': 'off',
      '@typescript-eslint/no-unnecessary-type-parameters': 'off',
      '@typescript-eslint/no-dynamic-delete': 'off',
      '@typescript-eslint/no-invalid-void-type': 'off',
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/unified-signatures': 'off',
    },
  },
  {
    files: ['src/**/*.ts', 'machines/**/*.ts'],
    ignores: ['src/base/**', 'src/operator/cli.ts', 'src/operator/cli/**', 'machines/diagrams/**'],
    rules: {
      'no-restricted-globals': ['error', ...ambientGlobals],
      'no-restricted-properties': ['error', ...ambientProperties],
      'no-restricted-syntax': ['error', ...ambientSyntax, namedExports],
    },
  },
  {
    files: ['src/**/*.ts'],
    rules: {
      'max-lines-per-function': ['error', { max: 70, skipBlankLines: true, skipComments: true }],
      'max-params': ['error', 4],
    },
  },
  { files: ['{src,machines,examples}/**/*.{ts,js}'], rules: atMost(400) },
  { files: ['machines/**/*.machine.ts'], rules: atMost(250) },
  { files: ['test/**/*.{ts,js}'], rules: atMost(600) },
  {
    files: ['src/protocol/**/*.ts'],
    rules: {
      'no-restricted-globals': ['error', ...ambientGlobals, ...impureGlobals],
      'no-restricted-syntax': ['error', ...ambientSyntax, namedExports, ...impure],
    },
  },
  {
    // Entries list what is public and hold no code.
    files: ['src/index.ts', 'src/store/etcd/index.ts', 'src/testing/index.ts', 'machines/index.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        namedExports,
        {
          selector: 'Program > :not(ExportNamedDeclaration[source])',
          message: 'An entry only re-exports; move the code into a file of its room.',
        },
      ],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      'no-restricted-properties': [
        'error',
        ...['test', 'describe', 'it'].map((object) => ({
          object,
          property: 'only',
          message: 'Run one test from the command line: npm test -- -t name.',
        })),
      ],
    },
  },
  {
    files: ['test/**/*.ts', 'machines/diagrams/**/*.ts'],
    rules: {
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/unbound-method': 'off',
    },
  },
  { files: ['**/*.js'], extends: [tseslint.configs.disableTypeChecked] },
);
