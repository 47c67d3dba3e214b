import { Client } from "@flowgen/client";
import type { Flows } from "./flows.js";

const client = new Client<Flows>({ url: process.env.FLOWGEN_SERVER ?? "", token: process.env.FLOWGEN_TOKEN ?? "" });
const run = await client.start("clients.order", { customer: "ada" }, { key: "order-4711" }); // once, however often it is sent
await run.send("items", "shoes");
await run.send("items", "done");
for await (const event of run.follow()) {
  console.log(event.seq, event.type); // as they come, each once, until the run has ended
}
export const receipt = await run.result();
