const crypto = require("node:crypto");
const http = require("node:http");

const key = Buffer.from("{{ secret }}".slice("whsec_".length), "base64");

function verified(headers, body) {
  const id = headers["webhook-id"];
  const time = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(time)) < 300)) return false;
  const signed = Buffer.concat([Buffer.from(`${id}.${time}.`), body]);
  const expected = crypto.createHmac("sha256", key).update(signed).digest();
  return (headers["webhook-signature"] || "").split(" ").some((one) => {
    const [version, value] = one.split(",");
    const given = Buffer.from(value || "", "base64");
    return version === "v1" && given.length === expected.length
      && crypto.timingSafeEqual(given, expected);
  });
}

http.createServer({ requestTimeout: 10_000 }, (request, response) => {
  const parts = [];
  let length = 0;
  request.on("data", (part) => {
    parts.push(part);
    length += part.length;
    if (length > 2 ** 20) request.destroy(); // no message is longer
  });
  request.on("end", () => { // never, if the sender breaks off
    const body = Buffer.concat(parts);
    if (!verified(request.headers, body)) {
      response.writeHead(400).end();
      return;
    }
    const event = JSON.parse(body);
    console.log(request.headers["webhook-id"], event.type, JSON.stringify(event.data));
    if (event.type === "subscription.test") { // prove that you know the secret
      const proof = crypto.createHmac("sha256", key).update(event.data.challenge).digest("hex");
      response.writeHead(200).end(JSON.stringify({ challenge: proof }));
    } else {
      response.writeHead(204).end();
    }
  });
}).listen(8081, "127.0.0.1");
