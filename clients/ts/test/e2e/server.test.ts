import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { Client, ConnectionError, ProblemError, RunError, type Event, type RunHandle } from "@flowgen/client";
import type { Flows } from "./flows.js";
import { CuttingProxy } from "./proxy.js";

const url = process.env.FLOWGEN_SERVER ?? "";
const token = process.env.FLOWGEN_TOKEN ?? "";
const client = new Client<Flows>({ url, token });
const limit = { timeout: 60_000 };

/** All events that the log has now. */
async function log(run: RunHandle<Flows>): Promise<Event[]> {
  const all: Event[] = [];
  for (let from: number | undefined; ; ) {
    const page = await run.events(from === undefined ? {} : { from });
    all.push(...page.events);
    if (page.next === undefined) {
      return all;
    }
    from = page.next;
  }
}

/** Waits until the run has taken n items. */
async function taken(run: RunHandle<Flows>, n: number): Promise<void> {
  for (let count; count !== n; ) {
    count = await run.value("count");
  }
}

function problem(code: string, status: number) {
  return (error: unknown): boolean => {
    assert(error instanceof ProblemError, String(error));
    assert.deepEqual([error.code, error.status], [code, status]);
    return true;
  };
}

test("starts with one key are one run", limit, async () => {
  const first = await client.start("clients.order", { customer: "ada" }, { key: "twice" });
  const second = await client.start("clients.order", { customer: "ada" }, { key: "twice" });
  assert.deepEqual([first.created, second.created, second.ref], [true, false, first.ref]);
  await assert.rejects(client.start("clients.order", { customer: "eve" }, { key: "twice" }), ProblemError);
});

test("a start with a key whose answer is lost is repeated, and one without is not", limit, async () => {
  const proxy = await CuttingProxy.start(url, (connection) => (connection % 2 === 0 ? 10 : Infinity));
  try {
    const through = new Client<Flows>({ url: proxy.url, token, backoffMs: 1 });
    const run = await through.start("clients.order", { customer: "ada" }, { key: "lost", tags: { test: "lost" } });
    assert.deepEqual([run.created, proxy.cuts, (await client.count({ tag: ["test=lost"] })).total], [false, 1, 1]);
  } finally {
    proxy.close();
  }
  const other = await CuttingProxy.start(url, () => 10);
  try {
    const through = new Client<Flows>({ url: other.url, token, backoffMs: 1 });
    await assert.rejects(through.start("clients.order", { customer: "ada" }, { tags: { test: "once" } }), ConnectionError);
    assert.deepEqual([other.cuts, (await client.count({ tag: ["test=once"] })).total], [1, 1]);
  } finally {
    other.close();
  }
});

test("a run takes messages, answers, publishes and has a typed result", limit, async () => {
  const run = await client.start("clients.order", { customer: "ada" });
  assert.equal((await run.wait({ timeoutMs: 1 })).endedAt, undefined);
  await run.send("items", "shoes", { key: "one" });
  await run.send("items", "shoes", { key: "one" });
  await run.send("items", "socks");
  await taken(run, 2);
  assert.equal(await run.ask("price", 21), 42);
  await assert.rejects(run.ask("price", -1), problem("rejected", 422));
  await run.send("items", "done");
  assert.equal((await run.wait({ timeoutMs: 30_000 })).status, "completed");
  const receipt = await run.result();
  assert.deepEqual(receipt, { customer: "ada", items: ["shoes", "socks"] });
  assert.equal(receipt.customer.length, 3); // it has a type
  const entities = await run.entities();
  assert(entities.entities.length > 0 && entities.entities.every((e) => !e.open), JSON.stringify(entities));
});

test("followers get each event once and in order though they are cut off 100 times while the run goes on", { timeout: 120_000 }, async () => {
  const run = await client.start("clients.order", { customer: "ada" });
  // Cut within heads, within events, and between them.
  const proxy = await CuttingProxy.start(url, (connection) => (connection < 100 ? (connection * 397) % 2003 : Infinity));
  try {
    const follower = new Client<Flows>({ url: proxy.url, token, attempts: 1000, backoffMs: 1, maxBackoffMs: 2 }).run(run.ref);
    const got: Event[] = [];
    const followed = (async () => {
      for await (const event of follower.follow()) {
        got.push(event);
      }
    })();
    for (let n = 0; proxy.cuts < 100; n++) {
      await run.send("items", `item ${n}`);
    }
    assert.equal((await run.get()).endedAt, undefined);
    await run.send("items", "done");
    await followed;
    assert.deepEqual(got, await log(run));
    assert.deepEqual(got.map((e) => e.seq), got.map((_, i) => (got[0]?.seq ?? 0) + i));
  } finally {
    proxy.close();
  }
});

test("a stream has typed chunks, each once and in order though readers are cut off 50 times", { timeout: 120_000 }, async () => {
  const run = await client.start("clients.order", { customer: "ada" });
  const proxy = await CuttingProxy.start(url, (connection) => (connection < 50 ? (connection * 397) % 2003 : Infinity));
  try {
    const reader = new Client<Flows>({ url: proxy.url, token, attempts: 1000, backoffMs: 1, maxBackoffMs: 2 }).run(run.ref);
    const got: string[] = [];
    const followed = (async () => {
      for await (const chunk of reader.followStream("lines")) {
        assert.equal(chunk.value.number, chunk.index); // it has a type
        got.push(chunk.value.item);
      }
    })();
    const sent: string[] = [];
    for (let n = 0; proxy.cuts < 50; n++) {
      sent.push(`item ${n}`);
      await run.send("items", `item ${n}`);
    }
    await run.send("items", "done");
    await followed;
    assert.deepEqual(got, sent);
    const page = await run.chunks("lines", { from: 2, limit: 1 });
    assert.deepEqual([page.first, page.last, page.ended, page.next, page.chunks.map((c) => c.value)], [1, sent.length, true, 3, [{ number: 2, item: "item 1" }]]);
    const streams = await run.streams();
    assert.deepEqual(streams.streams.map((s) => [s.name, s.last, s.ended, s.id.slice(0, 5)]), [["latest", sent.length, true, "strm_"], ["lines", sent.length, true, "strm_"]]);
    const gone: number[][] = [];
    const kept: number[] = [];
    for await (const chunk of run.followStream("latest", { from: 1, lagged: (lag) => gone.push([lag.wanted, lag.next]) })) {
      kept.push(chunk.value);
    }
    assert.deepEqual([gone, kept], [[[1, sent.length - 1]], [sent.length - 1, sent.length]]);
  } finally {
    proxy.close();
  }
});

test("a follower gets the events that it asks for, and no others", limit, async () => {
  const run = await client.start("clients.order", { customer: "ada" });
  await run.send("items", "shoes");
  await run.send("items", "done");
  const types = new Set<string>();
  let seq = 0;
  for await (const event of run.follow({ type: ["run_created", "run_completed"] })) {
    types.add(event.type);
    seq = event.seq;
  }
  assert.deepEqual([...types], ["run_created", "run_completed"]);
  assert.equal(seq, (await run.get()).events);
  for await (const event of run.follow({ name: "count" })) {
    assert.equal(event.type, "value_set");
  }
  await assert.rejects(run.follow({ entity: "nothing" }).next(), problem("input", 400));
});

test("types refuse what no workflow takes", limit, async () => {
  const run = client.run("id:nobody");
  // @ts-expect-error: there is no such workflow
  const workflow = client.start("clients.nobody", {}, { signal: AbortSignal.abort() });
  // @ts-expect-error: the customer is a string
  const input = client.start("clients.order", { customer: 1 }, { signal: AbortSignal.abort() });
  // @ts-expect-error: there is no such stream
  const stream = run.chunks("nothing", { signal: AbortSignal.abort() });
  for (const asked of [workflow, input, stream]) {
    await assert.rejects(asked);
  }
});

test("a run that was cancelled has no result", limit, async () => {
  const run = await client.start("clients.order", { customer: "ada" });
  await run.act("cancel", { reason: "ordered twice" });
  await assert.rejects(run.result(), (error: unknown) => error instanceof RunError && error.run.status === "cancelled");
});

test("problems have a code", limit, async () => {
  await assert.rejects(client.run("id:nobody").get(), problem("notFound", 404));
  await assert.rejects(client.run("id:nobody").follow().next(), problem("notFound", 404));
  await assert.rejects(new Client({ url }).runs(), problem("unauthenticated", 401));
  await assert.rejects(new Client({ url, token: "fg_wrong" }).runs(), problem("unauthenticated", 401));
});

test("a signal ends what waits", limit, async () => {
  const run = await client.start("clients.order", { customer: "ada" });
  const reason = new Error("enough");
  const waiting = new AbortController();
  const result = assert.rejects(run.result({ signal: waiting.signal }), reason);
  const following = new AbortController();
  await assert.rejects(async () => {
    for await (const event of run.follow({ signal: following.signal })) {
      assert(event.seq >= 0);
      following.abort(reason);
    }
  }, reason);
  waiting.abort(reason);
  await result;
  await assert.rejects(run.get({ signal: AbortSignal.abort(reason) }), reason);
});

test("the example of the README works", limit, async () => {
  const { receipt } = await import("./example.js");
  assert.deepEqual(receipt, { customer: "ada", items: ["shoes"] });
  const root = new URL("../../../../", import.meta.url); // from dist/check/test/e2e
  const example = await readFile(new URL("test/e2e/example.ts", root), "utf8");
  assert((await readFile(new URL("README.md", root), "utf8")).includes("```ts\n" + example + "```\n"), "README.md has another example than test/e2e/example.ts");
});
