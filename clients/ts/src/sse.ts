/** One server-sent event. */
export interface Message {
  /** Empty: it has none. */
  id: string;
  event: string;
  data: string;
}

/**
 * Reads server-sent events from a body, as the HTML standard has them. One that is cut off is not there: the
 * server sends it again. heard is called whenever something comes, comments too.
 */
export async function* messages(body: ReadableStream<Uint8Array>, heard: () => void): AsyncGenerator<Message, void, undefined> {
  const reader = body.getReader();
  const text = new TextDecoder();
  let rest = "";
  let next: Message = { id: "", event: "", data: "" };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      heard();
      rest += text.decode(value, { stream: true });
      let from = 0;
      for (const end of rest.matchAll(/\r\n|\n|\r(?!$)/g)) {
        const line = rest.slice(from, end.index);
        from = end.index + end[0].length;
        if (line !== "") {
          field(next, line);
          continue;
        }
        if (next.data !== "") {
          yield { ...next, data: next.data.slice(0, -1) };
        }
        next = { id: "", event: "", data: "" };
      }
      rest = rest.slice(from);
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it was cut off
  }
}

function field(to: Message, line: string): void {
  const at = line.indexOf(":");
  const name = at < 0 ? line : line.slice(0, at);
  const value = at < 0 ? "" : line.slice(line[at + 1] === " " ? at + 2 : at + 1);
  switch (name) {
    case "id":
      to.id = value;
      break;
    case "event":
      to.event = value;
      break;
    case "data":
      to.data += value + "\n";
  }
}
