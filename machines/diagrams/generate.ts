/** Writes the diagrams and machines/README.md: `npm run diagrams`. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { CHARTS } from '../index.ts';
import { drawingsOf, filesFrom } from './files.ts';

const machines = path.resolve(import.meta.dirname, '..');
for (const [file, text] of filesFrom(await drawingsOf(CHARTS)))
  writeFileSync(path.join(machines, file), text);
