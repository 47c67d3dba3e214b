import type { AnyFlows, Name } from "./flows.js";
import { RunHandle } from "./run.js";
import type { CountRunsQuery, Counts, FailureGroup, FailurePage, ListFailuresQuery, ListRunsQuery, Run, RunPage, Start, Started } from "./schema.js";
import { Transport, type Answer, type Call, type ClientOptions, type Operation } from "./transport.js";

/** Says more of a start than the workflow and its input. */
export interface StartOptions extends Omit<Start, "workflow" | "input"> {
  /** Makes starts with the same key one, so that a start without an answer is repeated; it goes without an id. */
  key?: string;
  signal?: AbortSignal;
}

/** Any request can be ended. */
export interface Abortable {
  signal?: AbortSignal;
}

/** Asks a server about runs, and starts them. F says what its workflows take and return. */
export class Client<F extends AnyFlows = AnyFlows> {
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
  }

  /**
   * Creates a run. When it returns the run is durable. It is repeated after a lost connection only if that cannot make
   * another run: with a key, or with an id, the policy use (or none) and finished: "reject".
   */
  async start<W extends Name<F, "workflows">>(
    workflow: W,
    input: F["workflows"][W]["input"],
    options: StartOptions = {},
  ): Promise<RunHandle<F, W> & { readonly created: boolean }> {
    const { key, signal, ...rest } = options;
    const named = rest.id !== undefined && (rest.policy === undefined || rest.policy === "use") && rest.finished === "reject";
    const call: Call = { body: input === undefined ? { ...rest, workflow } : { ...rest, workflow, input }, repeat: key !== undefined || named, signal };
    if (key !== undefined) {
      call.headers = { "Idempotency-Key": key };
    }
    const started = await this.#transport.json<Started>("startRun", call);
    return Object.assign(new RunHandle<F, W>(this.#transport, started.run), { created: started.created });
  }

  /** Returns a run by its id, or as "id:WORKFLOWID" by its workflow id. It does not ask whether there is one. */
  run<W extends Name<F, "workflows"> = Name<F, "workflows">>(ref: string): RunHandle<F, W> {
    return new RunHandle<F, W>(this.#transport, ref);
  }

  /** A page of runs, the newest first unless the filter says otherwise. */
  async runs(filter: ListRunsQuery & Abortable = {}): Promise<RunPage> {
    const { signal, ...query } = filter;
    return this.#transport.json("listRuns", { query, repeat: true, signal });
  }

  /** All runs that match, page after page. */
  async *allRuns(filter: ListRunsQuery & Abortable = {}): AsyncGenerator<Run, void, undefined> {
    for (let cursor = filter.cursor; ; ) {
      const page = await this.runs(cursor === undefined ? filter : { ...filter, cursor });
      yield* page.runs;
      if (page.cursor === undefined) {
        return;
      }
      cursor = page.cursor;
    }
  }

  /** How many runs match. */
  async count(filter: CountRunsQuery & Abortable = {}): Promise<Counts> {
    const { signal, ...query } = filter;
    return this.#transport.json("countRuns", { query, repeat: true, signal });
  }

  /** A page of groups of runs to which the same has happened. */
  async failures(filter: ListFailuresQuery & Abortable = {}): Promise<FailurePage> {
    const { signal, ...query } = filter;
    return this.#transport.json("listFailures", { query, repeat: true, signal });
  }

  /** All groups that match, page after page. */
  async *allFailures(filter: ListFailuresQuery & Abortable = {}): AsyncGenerator<FailureGroup, void, undefined> {
    for (let cursor = filter.cursor; ; ) {
      const page = await this.failures(cursor === undefined ? filter : { ...filter, cursor });
      yield* page.groups;
      if (page.cursor === undefined) {
        return;
      }
      cursor = page.cursor;
    }
  }

  /** Asks for any operation of the API, and returns the text of its answer: as it was sent, to the last digit. */
  async request(operation: Operation, call: Call = {}): Promise<Answer> {
    return this.#transport.request(operation, call);
  }
}
