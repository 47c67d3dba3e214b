import { decode, encode, refuseInexact, type Inexact } from "./json.js";
import { ConnectionError, ProblemError, problemOf } from "./problem.js";
import { routes, type Problem } from "./schema.js";
import { messages, type Message } from "./sse.js";

/** Where the server is, and how it is asked. */
export interface ClientOptions {
  /** Of the server, without /v1; a browser may give "" for its own. */
  url: string;
  /** Says who asks; a function is called for each request, so that a token can be renewed. */
  token?: string | (() => string | Promise<string>);
  /** Headers of all requests. */
  headers?: Record<string, string>;
  /** Instead of the global fetch. */
  fetch?: typeof fetch;
  /**
   * What becomes of a number that a JavaScript number cannot hold exactly, such as an int64 beyond 2^53: BigInt, Number
   * if the loss does not matter, or (text) => text. The default is an InexactNumberError.
   */
  inexact?: Inexact;
  /** How often a request is tried that may be repeated; 5 if it is not given. */
  attempts?: number;
  /** How long to wait before the second attempt at most; doubles from attempt to attempt. 200 if it is not given. */
  backoffMs?: number;
  /** The longest wait between two attempts; 10,000 if it is not given. */
  maxBackoffMs?: number;
  /** A stream from which nothing has come for so long is opened again; 45,000 if it is not given: three signs of life of the server. */
  silenceMs?: number;
}

/** A request to an operation of the API. */
export interface Call {
  /** Values for the {names} in the path, in order. */
  path?: string[];
  query?: Record<string, string | number | boolean | readonly string[] | undefined>;
  headers?: Record<string, string>;
  body?: unknown;
  signal?: AbortSignal | undefined;
  /** Whether it may be asked more than once. */
  repeat?: boolean;
}

/** An answer as it came. */
export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

export type Operation = keyof typeof routes;

/** Sends requests, again if that is allowed, and reads streams, again from where they were cut off. */
export class Transport {
  readonly #options: ClientOptions;
  readonly #inexact: Inexact;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#inexact = options.inexact ?? refuseInexact;
  }

  /** Reads an answer. */
  decode<T>(text: string): T {
    return decode(text, this.#inexact) as T;
  }

  /** Asks for the JSON that an operation answers. */
  async json<T>(operation: Operation, call: Call): Promise<T> {
    return this.decode<T>((await this.request(operation, call)).text);
  }

  /** Asks, and returns the text of the answer. Throws a ProblemError or a ConnectionError. */
  async request(operation: Operation, call: Call): Promise<Answer> {
    const most = call.repeat === true ? Math.max(1, this.#options.attempts ?? 5) : 1;
    for (let attempt = 1; ; attempt++) {
      try {
        const response = await this.#fetch(operation, call, "application/json", call.signal);
        const text = await body(response, call.signal);
        if (response.ok) {
          return { status: response.status, headers: response.headers, text };
        }
        throw new Refused(problemOf(response.status, response.headers.get("Content-Type"), text), response.headers.get("Retry-After"));
      } catch (error) {
        if (attempt >= most || !passes(error)) {
          throw error;
        }
        await this.#pause(attempt, error, call.signal);
      }
    }
  }

  /**
   * Reads the messages of a stream, each once and in order, until its end. It is opened again from the last id whenever it is
   * cut off; only the first time it gives up after some attempts.
   */
  async *stream(operation: Operation, call: Call): AsyncGenerator<Message, void, undefined> {
    const most = Math.max(1, this.#options.attempts ?? 5);
    let last = "";
    let opened = false;
    for (let failures = 0; ; ) {
      try {
        for await (const message of this.#once(operation, call, last)) {
          opened = true;
          failures = 0;
          if (message.event === "end") {
            return;
          }
          if (message.event === "problem") {
            throw new Refused(JSON.parse(message.data) as Problem, null);
          }
          if (message.id !== "") {
            last = message.id;
          }
          yield message;
        }
        throw new ConnectionError("the stream was cut off", undefined);
      } catch (error) {
        failures++;
        if (!passes(error) || (!opened && failures >= most)) {
          throw error;
        }
        await this.#pause(failures, error, call.signal);
      }
    }
  }

  /** Opens a stream after an id, and reads it until it is cut off. */
  async *#once(operation: Operation, call: Call, after: string): AsyncGenerator<Message, void, undefined> {
    const stop = new AbortController();
    const forward = (): void => stop.abort(call.signal?.reason);
    call.signal?.addEventListener("abort", forward, { once: true });
    const silence = this.#options.silenceMs ?? 45_000;
    let watch: ReturnType<typeof setTimeout> | undefined;
    const heard = (): void => {
      clearTimeout(watch);
      watch = setTimeout(() => stop.abort(new ConnectionError(`nothing has come for ${silence} ms`, undefined)), silence);
    };
    try {
      heard();
      const asked = after === "" ? call : { ...call, headers: { ...call.headers, "Last-Event-ID": after } };
      const response = await this.#fetch(operation, asked, "text/event-stream", stop.signal);
      if (!response.ok || response.body === null) {
        const text = await body(response, stop.signal);
        throw new Refused(problemOf(response.status, response.headers.get("Content-Type"), text), response.headers.get("Retry-After"));
      }
      try {
        yield* messages(response.body, heard);
      } catch (error) {
        throw lost(error, stop.signal);
      }
    } finally {
      clearTimeout(watch);
      call.signal?.removeEventListener("abort", forward);
      stop.abort();
    }
  }

  async #fetch(operation: Operation, call: Call, accept: string, signal: AbortSignal | undefined): Promise<Response> {
    signal?.throwIfAborted();
    const [method, template] = routes[operation];
    const headers = new Headers({ Accept: accept, ...this.#options.headers, ...call.headers });
    const { token } = this.#options;
    if (token !== undefined) {
      headers.set("Authorization", `Bearer ${typeof token === "string" ? token : await token()}`);
    }
    const init: RequestInit = { method, headers, cache: "no-store" };
    if (signal !== undefined) {
      init.signal = signal;
    }
    if (call.body !== undefined) {
      headers.set("Content-Type", "application/json");
      init.body = encode(call.body) ?? "null";
    }
    const url = this.#options.url.replace(/\/+$/, "") + filled(template, call.path ?? []) + queryOf(call.query);
    try {
      return await (this.#options.fetch ?? fetch)(url, init);
    } catch (error) {
      throw lost(error, signal);
    }
  }

  /** Waits before the next attempt: a random time that doubles, and no less than the server asks for. */
  async #pause(attempt: number, error: unknown, signal: AbortSignal | undefined): Promise<void> {
    const bound = Math.min((this.#options.backoffMs ?? 200) * 2 ** (attempt - 1), this.#options.maxBackoffMs ?? 10_000);
    const asked = error instanceof Refused ? Number(error.retryAfter ?? 0) * 1000 : 0;
    const wait = Math.max(bound * (0.5 + Math.random() / 2), Number.isFinite(asked) ? asked : 0);
    await new Promise<void>((resolve, reject) => {
      const stop = (): void => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", stop);
        resolve();
      }, wait);
      signal?.addEventListener("abort", stop, { once: true });
      if (signal?.aborted === true) {
        stop();
      }
    });
  }
}

/** A ProblemError, and when to ask again. */
class Refused extends ProblemError {
  readonly retryAfter: string | null;

  constructor(problem: Problem, retryAfter: string | null) {
    super(problem);
    this.retryAfter = retryAfter;
  }
}

/** Whether asking again may help. */
function passes(error: unknown): boolean {
  return error instanceof ConnectionError || (error instanceof ProblemError && [429, 502, 503].includes(error.status));
}

/** What is thrown when a connection is lost: the reason, if the caller or the watch has ended it. */
function lost(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted === true) {
    return signal.reason;
  }
  return new ConnectionError("there is no connection to the server", error);
}

async function body(response: Response, signal: AbortSignal | undefined): Promise<string> {
  try {
    return await response.text();
  } catch (error) {
    throw lost(error, signal);
  }
}

function filled(template: string, values: string[]): string {
  let n = 0;
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[n++];
    if (value === undefined || value === "") {
      throw new TypeError(`the ${name} in the path is empty: give its value`);
    }
    // A path does not keep a part that is . or .., and not every server takes them escaped.
    return value === "." || value === ".." ? value.replaceAll(".", "%2E") : encodeURIComponent(value);
  });
}

function queryOf(query: Call["query"]): string {
  const written = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? (value as readonly string[]) : [value]) {
      if (one !== undefined && one !== "" && one !== false) {
        written.append(name, String(one));
      }
    }
  }
  const text = written.toString();
  return text === "" ? "" : `?${text}`;
}
