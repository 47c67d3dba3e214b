export { Client, type Abortable, type StartOptions } from "./client.js";
export type { AnyFlows, Name } from "./flows.js";
export { InexactNumberError, RawJSON, type Inexact } from "./json.js";
export { ConnectionError, ProblemError, RunError, type ProblemCode } from "./problem.js";
export { RunHandle, type Action, type Lagging, type TypedChunk, type TypedChunkPage } from "./run.js";
export type * from "./schema.js";
export type { Answer as Response, Call, ClientOptions, Operation } from "./transport.js";
