import assert from "node:assert/strict";
import { test } from "node:test";

import { InexactNumberError, RawJSON } from "../src/index.js";
import { decode, encode, refuseInexact } from "../src/json.js";
import { messages } from "../src/sse.js";

test("a number that JavaScript cannot hold is never another number", () => {
  assert.throws(() => decode('{"n":9007199254740993}', refuseInexact), InexactNumberError);
  assert.throws(() => decode("1e400", refuseInexact), InexactNumberError);
  assert.deepEqual(decode('{"n":9007199254740993,"s":"9007199254740993","t":"a\\"9007199254740993"}', BigInt), {
    n: 9007199254740993n,
    s: "9007199254740993",
    t: 'a"9007199254740993',
  });
  assert.deepEqual(decode('{"9007199254740993":-9223372036854775807}', BigInt), { "9007199254740993": -9223372036854775807n });
  assert.equal(decode("9007199254740992", refuseInexact), 9007199254740992);
});

test("a bigint and raw JSON are sent to the last digit", () => {
  assert.equal(encode({ a: 9007199254740993n, b: new RawJSON('{"x":1.0}'), c: "$&" }), '{"a":9007199254740993,"b":{"x":1.0},"c":"$&"}');
  assert.throws(() => new RawJSON("{"), SyntaxError);
});

test("events are whole however the bytes are cut, and a cut off one is not there", async () => {
  const text = 'id: 1\r\nevent: event\r\ndata: {"a":"ü"}\r\n\r\n: alive\n\nid: 2\ndata: x\ndata: y\n\nid: 3\ndata: lost\n';
  const bytes = new TextEncoder().encode(text);
  for (let size = 1; size <= bytes.length; size++) {
    const body = new ReadableStream<Uint8Array>({
      start(to) {
        for (let at = 0; at < bytes.length; at += size) {
          to.enqueue(bytes.slice(at, at + size));
        }
        to.close();
      },
    });
    const got = [];
    for await (const message of messages(body, () => undefined)) {
      got.push(message);
    }
    assert.deepEqual(got, [
      { id: "1", event: "event", data: '{"a":"ü"}' },
      { id: "2", event: "", data: "x\ny" },
    ]);
  }
});
