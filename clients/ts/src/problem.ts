import type { Problem, Run } from "./schema.js";

/** The codes of problems that the API has. */
export type ProblemCode =
  | "input"
  | "notFound"
  | "refused"
  | "precondition"
  | "lag"
  | "rejected"
  | "unauthenticated"
  | "forbidden"
  | "busy"
  | "unsupported"
  | "timeout"
  | "interrupted"
  | "damaged"
  | "newer"
  | "failed";

/** The server has refused a request, or could not do what it asked for. */
export class ProblemError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.fix === undefined || problem.detail.includes(problem.fix) ? problem.detail : `${problem.detail}: ${problem.fix}`);
    this.name = "ProblemError";
    this.problem = problem;
  }

  /** Says what kind of problem it is; a server of a later release may have other codes. */
  get code(): ProblemCode | (string & {}) {
    return this.problem.code;
  }

  get status(): number {
    return this.problem.status;
  }

  /** What to do about it. */
  get fix(): string | undefined {
    return this.problem.fix;
  }
}

/** There was no answer: it is not known whether the server has done what was asked for. */
export class ConnectionError extends Error {
  constructor(message: string, cause: unknown) {
    super(message, { cause });
    this.name = "ConnectionError";
  }
}

/** A run was awaited, and has ended in another way than by completing. */
export class RunError extends Error {
  readonly run: Run;

  constructor(run: Run) {
    super(`run ${run.id} of ${run.workflow} is ${run.status}${run.failure === undefined ? "" : `: ${run.failure.message}`}`);
    this.name = "RunError";
    this.run = run;
  }
}

/** Reads the problem in an answer; one that a proxy has given has none, and gets one. */
export function problemOf(status: number, kind: string | null, text: string): Problem {
  if (kind?.startsWith("application/problem+json") === true) {
    try {
      return JSON.parse(text) as Problem;
    } catch {
      // then it was cut off
    }
  }
  return {
    type: "about:blank",
    title: "The server has not said what is wrong",
    status,
    detail: `the server has answered with status ${status}`,
    code: status === 401 ? "unauthenticated" : status === 403 ? "forbidden" : status === 404 ? "notFound" : status === 429 ? "busy" : status < 500 ? "input" : "failed",
    exit: 1,
  };
}
