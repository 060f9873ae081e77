/** The proxy on the way to an endpoint, as grpc-js takes it from the environment: for messages that name it. */

/** The first one that is set counts. */
const PROXY_VARIABLES = ['grpc_proxy', 'https_proxy', 'http_proxy'];
const EXCEPTION_VARIABLES = ['no_grpc_proxy', 'no_proxy'];

type Environment = Readonly<Record<string, string | undefined>>;

/** `http://etcd-0:2379 through the proxy gate:3128 of http_proxy`; the endpoint alone when no proxy is before it. */
export function nameThroughProxy(endpoint: string, environment: Environment = process.env): string {
  const variable = firstSet(PROXY_VARIABLES, environment);
  if (variable === undefined || isException(endpoint, environment)) return endpoint;
  const given = environment[variable]!;
  // What grpc-js cannot read, or of another kind, it leaves out.
  if (!URL.canParse(given) || new URL(given).protocol !== 'http:') return endpoint;
  const { hostname, port } = new URL(given);
  return `${endpoint} through the proxy ${hostname}:${port === '' ? '80' : port} of ${variable}`;
}

/** By the end of the host's name; of networks (`10.0.0.0/8`) only grpc-js itself knows. */
function isException(endpoint: string, environment: Environment): boolean {
  const variable = firstSet(EXCEPTION_VARIABLES, environment);
  if (variable === undefined) return false;
  const { hostname } = new URL(endpoint);
  return environment[variable]!.split(',').some((end) => hostname.endsWith(end));
}

function firstSet(names: readonly string[], environment: Environment): string | undefined {
  return names.find((name) => (environment[name] ?? '') !== '');
}
