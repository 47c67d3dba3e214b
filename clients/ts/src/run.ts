import type { Abortable } from "./client.js";
import type { AnyFlows, Name } from "./flows.js";
import { RunError } from "./problem.js";
import type { Act, Acted, Chunk, ChunkPage, EntityPage, Event, EventPage, FollowRunQuery, FollowStreamQuery, Lag, ListEntitiesQuery, ListStreamsQuery, ReadStreamQuery, Run, Sent, StreamList } from "./schema.js";
import type { Answer, Value } from "./schema.js";
import type { Call, Transport } from "./transport.js";

/** What can be done with runs. */
export type Action = Acted["verb"];

/** A chunk of a stream of T. */
export interface TypedChunk<T> extends Chunk {
  value: T;
}

/** A page of a stream of T. */
export interface TypedChunkPage<T> extends ChunkPage {
  chunks: TypedChunk<T>[];
}

/** Is told that what comes next is not kept any more, and where it goes on. */
export interface Lagging {
  lagged?: (lag: Lag) => void;
}

/** A run of workflow W. Nothing of it is known here but its name. */
export class RunHandle<F extends AnyFlows = AnyFlows, W extends Name<F, "workflows"> = Name<F, "workflows">> {
  /** Its id, or "id:WORKFLOWID". */
  readonly ref: string;
  readonly #transport: Transport;

  constructor(transport: Transport, ref: string) {
    this.#transport = transport;
    this.ref = ref;
  }

  /** The run as it is now. */
  async get(options: Abortable = {}): Promise<Run> {
    return this.#transport.json("getRun", { path: [this.ref], repeat: true, signal: options.signal });
  }

  /** Waits until the run, or what it has continued as, has ended, or until timeoutMs are over, and returns what it is then. */
  async wait(options: Abortable & { timeoutMs?: number } = {}): Promise<Run> {
    const until = options.timeoutMs === undefined ? Infinity : Date.now() + options.timeoutMs;
    for (;;) {
      const left = Math.min(Math.max(until - Date.now(), 0), 30_000);
      const run = await this.#transport.json<Run>("awaitRun", { path: [this.ref], query: { wait: `${Math.ceil(left)}ms` }, repeat: true, signal: options.signal });
      if (run.endedAt !== undefined || Date.now() >= until) {
        return run;
      }
    }
  }

  /** Waits for the result. Throws a RunError if the run has failed or was cancelled. */
  async result(options: Abortable = {}): Promise<F["workflows"][W]["result"]> {
    const run = await this.wait(options);
    if (run.status !== "completed") {
      throw new RunError(run);
    }
    return run.result as F["workflows"][W]["result"];
  }

  /** A page of the log. */
  async events(options: Abortable & { from?: number; limit?: number } = {}): Promise<EventPage> {
    const { signal, ...query } = options;
    return this.#transport.json("listEvents", { path: [this.ref], query, repeat: true, signal });
  }

  /** A page of what the run has begun, such as steps and waits, each as it stands. */
  async entities(filter: ListEntitiesQuery & Abortable = {}): Promise<EntityPage> {
    const { signal, ...query } = filter;
    return this.#transport.json("listEntities", { path: [this.ref], query, repeat: true, signal });
  }

  /**
   * The events of the run that the filter selects, from number from on, as they come, each once and in order, until it has ended.
   * Lost connections are made again from the last event; break or the signal ends it.
   */
  async *follow(options: Abortable & Lagging & FollowRunQuery = {}): AsyncGenerator<Event, void, undefined> {
    yield* this.#follow<Event>("followRun", [this.ref], options);
  }

  /** A page of the streams to which the run, and what it has continued as, have written, by name. */
  async streams(filter: ListStreamsQuery & Abortable = {}): Promise<StreamList> {
    const { signal, ...query } = filter;
    return this.#transport.json("listStreams", { path: [this.ref], query, repeat: true, signal });
  }

  /** A page of a stream: the chunks that are kept, from number from on. It does not wait. */
  async chunks<S extends Name<F, "streams">>(stream: S, options: Abortable & ReadStreamQuery = {}): Promise<TypedChunkPage<F["streams"][S]>> {
    const { signal, ...query } = options;
    return this.#transport.json("readStream", { path: [this.ref, stream], query, repeat: true, signal });
  }

  /**
   * The chunks of a stream from number from on as they come, each once and in order, until no more can. Lost connections are made
   * again after the last chunk. It goes on where chunks are kept again; lagged is told of those that are gone.
   */
  async *followStream<S extends Name<F, "streams">>(
    stream: S,
    options: Abortable & Lagging & FollowStreamQuery = {},
  ): AsyncGenerator<TypedChunk<F["streams"][S]>, void, undefined> {
    yield* this.#follow<TypedChunk<F["streams"][S]>>("followStream", [this.ref, stream], options);
  }

  /** Puts a message of a topic into the run. When it returns the message is durable; it arrives once, however often it was sent. */
  async send<T extends Name<F, "topics">>(topic: T, payload: F["topics"][T], options: Abortable & { key?: string } = {}): Promise<Sent> {
    return this.#transport.json("sendMessage", this.#keyed([this.ref, topic], { payload: payload ?? null }, options));
  }

  /** Asks the run something and waits for the answer; the server gives up after waitSeconds, 30 if it is not given, at most 60. */
  async ask<A extends Name<F, "asks">>(
    name: A,
    question: F["asks"][A]["question"],
    options: Abortable & { key?: string; waitSeconds?: number } = {},
  ): Promise<F["asks"][A]["answer"]> {
    const call = this.#keyed([this.ref, name], { payload: question ?? null }, options);
    if (options.waitSeconds !== undefined) {
      call.headers = { ...call.headers, Prefer: `wait=${Math.ceil(options.waitSeconds)}` };
    }
    return (await this.#transport.json<Answer>("askRun", call)).payload as F["asks"][A]["answer"];
  }

  /** The newest value of a name that the run has published; undefined: none yet. */
  async value<V extends Name<F, "values">>(name: V, options: Abortable = {}): Promise<F["values"][V] | undefined> {
    const value = await this.#transport.json<Value>("getValue", { path: [this.ref, name], repeat: true, signal: options.signal });
    return value.set ? (value.value as F["values"][V]) : undefined;
  }

  /** Controls the run. With a key it is repeated after a lost connection; restart and fork take none. */
  async act(verb: Action, options: Act & Abortable & { key?: string } = {}): Promise<Acted> {
    const { key, signal, ...body } = options;
    const call: Call = { path: [this.ref, verb], body, repeat: key !== undefined, signal };
    if (key !== undefined) {
      call.headers = { "Idempotency-Key": key };
    }
    return this.#transport.json("actOnRun", call);
  }

  /** What comes by server-sent events. */
  async *#follow<T>(operation: "followRun" | "followStream", path: string[], options: Abortable & Lagging & (FollowRunQuery | FollowStreamQuery)): AsyncGenerator<T, void, undefined> {
    const { signal, lagged, ...query } = options;
    for await (const message of this.#transport.stream(operation, { path, query, signal })) {
      if (message.event === "event") {
        yield this.#transport.decode<T>(message.data);
      } else if (message.event === "lag") {
        lagged?.(JSON.parse(message.data) as Lag);
      }
    }
  }

  /** A request with a key, so that it can be repeated. */
  #keyed(path: string[], body: unknown, options: Abortable & { key?: string }): Call {
    return { path, body, headers: { "Idempotency-Key": options.key ?? crypto.randomUUID() }, repeat: true, signal: options.signal };
  }
}
