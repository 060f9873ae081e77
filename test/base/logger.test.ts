import { expect, test } from '@jest/globals';
import { SILENT_LOGGER } from '../../src/base/logger.ts';

test('logger - the silent one takes every level', () => {
  for (const level of ['debug', 'info', 'warn', 'error'] as const) {
    expect(() => {
      SILENT_LOGGER[level]({ event: 'x' }, 'message');
    }).not.toThrow();
  }
});
