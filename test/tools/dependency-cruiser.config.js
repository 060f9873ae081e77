/** What `npm run tidy` asks of the imports: one direction between rooms, no circle, nothing that is not installed. */
import { ROOMS } from './rooms.js';

/** @param {string} room */
function pathOf(room) {
  if (room === 'index') return '^src/index\\.ts$';
  return room.startsWith('machines') ? `^${room}/` : `^src/${room}/`;
}

/** @param {string} name */
function targetOf(name) {
  if (name in ROOMS) return pathOf(name);
  if (name === 'node:*') return '^(node:)?[a-z_/]+$';
  if (name.startsWith('node:')) return `^(node:)?${name.slice('node:'.length)}$`;
  return `node_modules/${name}/`;
}

/**
 * Paths of the rooms inside a room, which are rooms of their own.
 *
 * @param {string} room
 */
function innerRooms(room) {
  return Object.keys(ROOMS)
    .filter((other) => other.startsWith(`${room}/`))
    .map(pathOf);
}

const direction = Object.entries(ROOMS).map(([room, allowed]) => {
  const inner = innerRooms(room);
  return {
    name: `room ${room}`,
    comment: `${room} may use ${allowed.join(', ') || 'nothing'}`,
    severity: /** @type {const} */ ('error'),
    from: { path: pathOf(room), ...(inner.length === 0 ? {} : { pathNot: inner }) },
    to: { couldNotResolve: false, pathNot: [...ownOf(room), ...allowed.flatMap(reachOf)] },
  };
});

/**
 * The files of a room without those of the rooms inside it.
 *
 * @param {string} room
 */
function ownOf(room) {
  const inner = innerRooms(room).map((path) => path.slice(pathOf(room).length));
  return inner.length === 0 ? [pathOf(room)] : [`${pathOf(room)}(?!${inner.join('|')})`];
}

/** @param {string} name */
function reachOf(name) {
  return name in ROOMS ? ownOf(name) : [targetOf(name)];
}

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    ...direction,
    {
      name: 'no circle',
      severity: 'error',
      from: { path: '^(src|machines|test|examples)/' },
      to: { circular: true },
    },
    {
      name: 'a source file belongs to a room',
      severity: 'error',
      from: { path: '^src/(?!index\\.ts$)[^/]+\\.ts$' },
      to: {},
    },
    {
      name: 'imports exist',
      severity: 'error',
      from: { path: '^(src|machines|test|examples)/' },
      to: { couldNotResolve: true },
    },
    {
      name: 'only the store for etcd knows etcd3, and what compares with it',
      severity: 'error',
      from: { pathNot: '^(src/store/etcd|test/bench/etcd|test/etcd/store)/' },
      to: { path: 'node_modules/etcd3/' },
    },
    {
      name: 'source uses what a user installs',
      severity: 'error',
      from: { path: '^(src|machines)/', pathNot: '^machines/diagrams/' },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(dist|\\.bench)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.js'], conditionNames: ['import', 'node'] },
  },
};
