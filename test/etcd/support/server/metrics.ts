/** What an etcd server counts. */
import http from 'node:http';

/** The sum of all counters with this name whose labels contain each of `labels`. */
export async function metric(
  endpoint: string,
  name: string,
  labels: readonly string[] = [],
): Promise<number> {
  const text = await new Promise<string>((resolve, reject) => {
    const request = http.get(new URL('/metrics', endpoint), { agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (body += chunk));
      response.once('end', () => resolve(body));
      response.once('error', reject);
    });
    request.once('error', reject);
  });
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) => labels.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}
