// Runs a module of a serverless platform (export default { fetch }) on a free port, with the
// environment as its settings: node serverless.mjs MODULE. With PLATFORM=other it does what every
// platform does; otherwise also what Cloudflare adds.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto; // Node 18

// From its text: Node reads a file that ends in .js as a module only beside a package.json.
const text = await readFile(process.argv[2]);
const { default: module } = await import(`data:text/javascript;base64,${text.toString("base64")}`);

async function read(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

const server = createServer(async (incoming, outgoing) => {
  const body = await read(incoming);
  const isCloudflare = process.env.PLATFORM !== "other";
  if (isCloudflare) incoming.headers["cf-connecting-ip"] ??= incoming.socket.remoteAddress;
  const request = new Request(`http://${incoming.headers.host}${incoming.url}`, {
    method: incoming.method,
    headers: incoming.headers,
    body: body.length ? body : undefined,
  });
  if (isCloudflare) request.cf = {};
  const answer = await module.fetch(request, process.env);
  outgoing.writeHead(answer.status, Object.fromEntries(answer.headers));
  outgoing.end(Buffer.from(await answer.arrayBuffer()));
});
server.listen(0, "127.0.0.1", () => console.log(`listening on port ${server.address().port}`));
process.on("SIGTERM", () => process.exit(0));
