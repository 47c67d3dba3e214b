import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** A proxy that cuts each connection off once so many bytes of the server have passed. */
export class CuttingProxy {
  /** Connections that were cut off. */
  cuts = 0;
  url = "";
  readonly #server: Server;
  readonly #open = new Set<Socket>();

  private constructor(to: URL, budget: (connection: number) => number) {
    let connections = 0;
    this.#server = createServer((near) => {
      let left = budget(connections++);
      const far = connect(Number(to.port), to.hostname);
      const end = (): void => {
        near.destroy();
        far.destroy();
      };
      for (const socket of [near, far]) {
        this.#open.add(socket);
        socket.on("error", end);
        socket.on("close", () => {
          this.#open.delete(socket);
          end();
        });
      }
      near.pipe(far);
      far.on("data", (chunk: Buffer) => {
        if (chunk.length < left) {
          left -= chunk.length;
          near.write(chunk);
          return;
        }
        this.cuts++;
        near.write(chunk.subarray(0, left), end);
        far.pause();
      });
    });
  }

  static async start(to: string, budget: (connection: number) => number): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(new URL(to), budget);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    proxy.url = `http://127.0.0.1:${(proxy.#server.address() as AddressInfo).port}`;
    return proxy;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#open) {
      socket.destroy();
    }
  }
}
