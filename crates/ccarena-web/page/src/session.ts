// The page's end of a worker: it starts it, gives it orders, and replaces it when it has to stop or breaks.

import type { Files, News, Order } from "./worker";

export type Opened = News & { kind: "opened" };
export type Finished = News & { kind: "finished" };

export class Fault extends Error {
  constructor(message: string, readonly path?: string) {
    super(message);
  }
}

export interface Listener {
  opened?(news: Opened): void;
  update?(news: News & { kind: "update" }): void;
  finished(news: Finished): void;
  failed(fault: Fault): void;
}

export interface Request {
  scenario: string;
  files: Files;
  seed?: number;
  /** Most packets of which a log is kept. */
  packets: number;
  /** Only the figures at the end are wanted. */
  whole?: boolean;
}

let workerCode: () => string = () => "";
let engineBytes: Promise<ArrayBuffer> | null = null;
let unpack: () => Promise<ArrayBuffer> = () => Promise.reject(new Fault("there is no engine in this page"));

/** Tells sessions where the worker's script and the engine are. */
export function equip(code: () => string, wasm: () => Promise<ArrayBuffer>): void {
  workerCode = code;
  unpack = wasm;
}

/** Longest time that reading or checking a scenario may take, ms. */
const MOST_WAIT_MS = 10_000;

export class Session {
  private asked = -2;
  private worker: Worker | null = null;
  private number = 0;
  private listener: Listener | null = null;
  private readers = new Map<number, { done: (document: unknown) => void; failed: (fault: Fault) => void }>();
  private ready: Promise<string> | null = null;

  /** Starts the worker, if there is none. Returns the registry as JSON. */
  start(): Promise<string> {
    this.ready ??= this.begin();
    return this.ready;
  }

  private async begin(): Promise<string> {
    if (typeof WebAssembly !== "object") {
      throw new Fault("this browser has no WebAssembly, and the simulator needs it: use a current Firefox, Chrome, Edge or Safari, or run the scenario with the command below");
    }
    engineBytes ??= unpack();
    const wasm = await engineBytes;
    return new Promise((done, failed) => {
      const address = URL.createObjectURL(new Blob([workerCode()], { type: "text/javascript" }));
      const worker = new Worker(address);
      this.worker = worker;
      worker.onmessage = (event: MessageEvent<News>) => {
        const news = event.data;
        if (news.kind === "loaded") done(news.registry);
        else if (news.kind === "failed" && news.id === null) failed(new Fault(news.message, news.path));
        else this.hear(news);
      };
      worker.onerror = (event) => {
        event.preventDefault();
        this.broke(event.message || "the simulator's worker ended");
        failed(new Fault(event.message || "the simulator's worker did not start"));
      };
      worker.postMessage({ kind: "load", wasm } satisfies Order);
      // A started worker keeps its script.
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    });
  }

  private hear(news: News): void {
    if (news.kind === "loaded") return;
    if (news.kind === "read" || (news.kind === "failed" && this.readers.has(news.id ?? -1))) {
      const reader = this.readers.get(news.id ?? -1);
      this.readers.delete(news.id ?? -1);
      if (news.kind === "read") reader?.done(news.document);
      else reader?.failed(new Fault(news.message, news.path));
      return;
    }
    if (news.id !== this.number || !this.listener) return; // of a run that was replaced
    if (news.kind === "opened") this.listener.opened?.(news);
    else if (news.kind === "update") this.listener.update?.(news);
    else if (news.kind === "finished") this.listener.finished(news);
    else if (news.kind === "failed") {
      if (/unreachable|out of bounds|memory/i.test(news.message) && !news.path) this.broke(news.message);
      else this.listener.failed(new Fault(news.message, news.path));
    }
  }

  // A panic or a lack of memory leaves the engine unusable: the next order gets a new one.
  private broke(why: string): void {
    const listener = this.listener;
    this.stop();
    listener?.failed(new Fault(`the simulator stopped (${why}); it is started anew for the next run. Take a shorter run or fewer flows if it was memory`));
  }

  /** Runs a scenario; a run under way is given up. */
  run(request: Request, listener: Listener): void {
    const id = ++this.number;
    this.listener = listener;
    this.start().then(
      () => {
        if (id !== this.number) return;
        this.worker?.postMessage({ kind: "run", id, scenario: request.scenario, files: request.files, packets: request.packets, whole: request.whole ?? false, ...(request.seed === undefined ? {} : { seed: request.seed }) } satisfies Order);
      },
      (error: unknown) => {
        this.ready = null;
        if (id === this.number) listener.failed(error instanceof Fault ? error : new Fault(String(error)));
      },
    );
  }

  /** Reads a scenario's text as the command does. */
  read(text: string): Promise<unknown> {
    return this.ask((id) => ({ kind: "read", id, text }), "reading the scenario");
  }

  /** Throws the fault of a scenario that cannot run here. */
  async check(scenario: string, files: Files): Promise<void> {
    await this.ask((id) => ({ kind: "check", id, scenario, files }), "checking the scenario");
  }

  private async ask(order: (id: number) => Order, what: string): Promise<unknown> {
    await this.start();
    return new Promise((done, failed) => {
      const id = this.asked--;
      const late = setTimeout(() => {
        this.stop();
        failed(new Fault(`${what} takes more than ${MOST_WAIT_MS / 1000} s: make it shorter, or run it with the command: ccarena eval --scenario FILE`));
      }, MOST_WAIT_MS);
      const end = <T>(act: (value: T) => void) => (value: T): void => {
        clearTimeout(late);
        act(value);
      };
      this.readers.set(id, { done: end(done), failed: end(failed) });
      this.worker!.postMessage(order(id));
    });
  }

  /** Ends the worker at once, whatever it does. */
  stop(): void {
    this.worker?.terminate();
    this.worker = null;
    this.ready = null;
    this.listener = null;
    this.number++;
    for (const reader of this.readers.values()) reader.failed(new Fault("cancelled"));
    this.readers.clear();
  }
}
