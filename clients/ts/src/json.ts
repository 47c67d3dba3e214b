/** JSON as text, which is sent as it stands: for numbers that JavaScript cannot hold, and for what is only passed on. */
export class RawJSON {
  readonly text: string;

  /** Throws a SyntaxError if the text is no JSON. */
  constructor(text: string) {
    JSON.parse(text);
    this.text = text;
  }
}

/** A number came that a JavaScript number cannot hold. */
export class InexactNumberError extends Error {
  /** The number as it was sent. */
  readonly text: string;

  constructor(text: string) {
    super(`the number ${text} is beyond what a JavaScript number holds exactly: give the client the option inexact, such as inexact: BigInt`);
    this.name = "InexactNumberError";
    this.text = text;
  }
}

/** What becomes of a number that a JavaScript number cannot hold exactly. */
export type Inexact = (text: string) => unknown;

/** The default: such a number is an error, and never another number. */
export const refuseInexact: Inexact = (text) => {
  throw new InexactNumberError(text);
};

/** Strings and numbers of a JSON text. */
const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Reads JSON; what a number cannot hold goes through inexact. */
export function decode(text: string, inexact: Inexact): unknown {
  if (!/\d{16}|\d[eE]\+?\d{3}/.test(text)) {
    return JSON.parse(text); // no number is that great
  }
  const mark = unused();
  const marked = text.replace(tokens, (token) => (token.startsWith('"') || holds(token) ? token : `"${mark}${token}"`));
  return JSON.parse(marked, (_, value: unknown) => (typeof value === "string" && value.startsWith(mark) ? inexact(value.slice(mark.length)) : value));
}

/** Writes JSON; a bigint is written as a number. */
export function encode(value: unknown): string | undefined {
  const mark = unused();
  const raw: string[] = [];
  const text = JSON.stringify(value, function (this: unknown, key: string, given: unknown) {
    const own = (this as Record<string, unknown>)[key]; // before its toJSON
    if (own instanceof RawJSON || typeof own === "bigint") {
      return mark + (raw.push(own instanceof RawJSON ? own.text : String(own)) - 1);
    }
    return given;
  }) as string | undefined;
  return raw.length === 0 ? text : text?.replace(new RegExp(`"${mark}(\\d+)"`, "g"), (_, n: string) => raw[Number(n)] ?? "");
}

/** A text that nothing else has in it. */
function unused(): string {
  return `#${crypto.randomUUID()}#`;
}

function holds(token: string): boolean {
  const n = Number(token);
  if (!Number.isFinite(n)) {
    return false;
  }
  return !/^-?\d+$/.test(token) || Number.isSafeInteger(n) || BigInt(n) === BigInt(token);
}
