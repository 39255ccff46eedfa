// The simulator in a page or in Node: loads the WebAssembly module and speaks to it (`../../src/exports.rs`).
//
// Calls return at once with what the module answers. A panic in the module stops that instance: the call throws an
// EngineError, its runs are gone, and the next call works with a new instance of the same module.

/** A fault in a scenario: the field, if it is about one, and a sentence that begins with it. */
export interface Problem {
  path?: string;
  message: string;
}

/** An error whose message is for the reader of the page. */
export class EngineError extends Error {
  readonly path: string | undefined;

  constructor(problem: Problem) {
    super(problem.message);
    this.name = "EngineError";
    this.path = problem.path;
  }
}

/** How far a run is; `packets` counts data packets that have left their last links. */
export interface Progress {
  nowS: number;
  done: boolean;
  packets: number;
}

/** Values of a flow, one per step. */
export interface FlowSeries {
  /** IP bytes that reached the receiver. */
  rate_mbps: Float64Array;
  /** Payload that reached the receiver for the first time. */
  goodput_mbps: Float64Array;
  /** The sender's window at the end of the step. */
  window_bytes: Float64Array;
  /** What the sender had in flight at the end of the step. */
  in_flight_bytes: Float64Array;
  /** Mean of the sender's RTT samples in the step; NaN without one. */
  rtt_ms: Float64Array;
  /** Packets that the sender took for lost in the step. */
  lost_packets: Float64Array;
}

/** Values of a link, one per step. */
export interface LinkSeries {
  capacity_mbps: Float64Array;
  throughput_mbps: Float64Array;
  /** Bytes that waited or were in transmission at the end of the step. */
  queue_bytes: Float64Array;
  /** Mean queueing delay of the packets that left in the step; NaN without one. */
  queueing_ms: Float64Array;
  /** Packets dropped by the queue. */
  dropped_packets: Float64Array;
  /** Packets marked (ECN). */
  marked_packets: Float64Array;
  /** Packets lost at random, in an outage or to a policer. */
  lost_packets: Float64Array;
}

/** Series of a run so far. */
export interface Series {
  /** End of each step. */
  time_s: Float64Array;
  flows: FlowSeries[];
  links: LinkSeries[];
}

/** Packets at a link: rows of those that left it, in that order, and of those that ended there. */
export interface LinkPackets {
  arrival_s: Float64Array;
  departure_s: Float64Array;
  /** The packet's own transmission; 0 on a trace. */
  serialisation_s: Float64Array;
  flow: Float64Array;
  bytes: Float64Array;
  dropped_s: Float64Array;
  dropped_flow: Float64Array;
  lost_s: Float64Array;
  lost_flow: Float64Array;
  policed_s: Float64Array;
  policed_flow: Float64Array;
}

/** Packets at all links. */
export interface PacketLog {
  links: LinkPackets[];
}

/** Files by the names that the scenario uses: traces, conditions tables, policies. */
export type Files = Map<string, Uint8Array>;

export interface Options {
  /** Seed in place of the scenario's. */
  seed?: number;
  /** Records every packet, for `Run.packets`. */
  packets?: boolean;
}

/** The version of `exports.rs` that this file speaks to. */
const VERSION = 3;

/** A memory that has grown so far could not grow further. */
const FULL_BYTES = 2 ** 31;

interface Exports {
  memory: WebAssembly.Memory;
  version(): number;
  start(): void;
  panic_at(): number;
  panic_length(): number;
  reserve(length: number): number;
  answer_at(): number;
  answer_length(): number;
  check(): number;
  read(): number;
  normalise(): number;
  registry(): number;
  open(seed: number, packets: number): number;
  advance(run: number, untilS: number): number;
  series(run: number): number;
  packets(run: number, sinceS: number): number;
  result(run: number): number;
  free_run(run: number): void;
}

/** An array in the module's memory: kind and number of what it is about, name, address, length. */
type Column = [group: "" | "flows" | "links", index: number, name: string, at: number, length: number];

/** Compiles the module. Throws EngineError if the browser cannot, or the module is of another version. */
export async function load(wasm: BufferSource): Promise<Engine> {
  if (typeof WebAssembly === "undefined") {
    throw new EngineError({ message: "this browser has no WebAssembly; expected one of 2023 or later" });
  }
  let module: WebAssembly.Module;
  try {
    module = await WebAssembly.compile(wasm);
  } catch (error) {
    throw new EngineError({ message: `the simulator cannot be loaded: ${String(error)}` });
  }
  const engine = new Engine(module);
  await engine.start();
  return engine;
}

/** The simulator. */
export class Engine {
  readonly #module: WebAssembly.Module;
  #exports: Exports | undefined;
  /** Counts instances: runs of an earlier one are gone. */
  #generation = 0;

  /** Use `load`. */
  constructor(module: WebAssembly.Module) {
    this.#module = module;
  }

  /** Makes the first instance. */
  async start(): Promise<void> {
    const instance = await WebAssembly.instantiate(this.#module, {});
    this.#take(instance);
  }

  /** Returns the faults of a scenario (YAML or JSON); none if it can be opened. */
  check(scenario: string, files?: Files): Problem[] {
    this.#give(scenario, files);
    return this.call<Problem[]>((exports) => exports.check()).map(tidied);
  }

  /** Returns a scenario's text, YAML or JSON, as a JSON document. Throws EngineError for wrong syntax. */
  read(scenario: string): string {
    this.#give(scenario);
    return this.#text((exports) => exports.read());
  }

  /** Returns the document with every default filled in, as JSON, and under `estimate` what a run asks for. */
  normalise(scenario: string, files?: Files): string {
    this.#give(scenario, files);
    return this.#text((exports) => exports.normalise());
  }

  /** Returns schemes, queue disciplines, applications and the rest, with their parameters, as JSON. */
  registry(): string {
    return this.#text((exports) => exports.registry());
  }

  /** Starts a run. Throws EngineError with the first fault. */
  open(scenario: string, files?: Files, options: Options = {}): Run {
    const { seed, packets = false } = options;
    if (seed !== undefined && !(Number.isSafeInteger(seed) && seed >= 0)) {
      throw new EngineError({ path: "seed", message: `seed: got ${seed}; expected a whole number from 0` });
    }
    this.#give(scenario, files);
    const { number, l4s } = this.call<{ number: number; l4s: boolean[] }>((exports) => exports.open(seed ?? Number.NaN, packets ? 1 : 0));
    return new Run(this, number, l4s, this.#generation);
  }

  /** Calls the module and returns its answer. For `Run`. */
  call<Answer>(of: (exports: Exports) => number, generation = this.#generation): Answer {
    return JSON.parse(this.#text(of, generation)) as Answer;
  }

  /** Calls the module and returns the JSON that it answers, in which whole numbers may have more digits than JavaScript's. */
  #text(of: (exports: Exports) => number, generation = this.#generation): string {
    if (generation !== this.#generation) {
      throw new EngineError({ message: "the run is gone, since the simulator was restarted; open it again" });
    }
    const exports = this.#living();
    let found: number;
    try {
      found = of(exports);
    } catch (error) {
      throw this.#broken(error);
    }
    const bytes = new Uint8Array(exports.memory.buffer, exports.answer_at(), exports.answer_length());
    const answer = new TextDecoder().decode(bytes);
    if (found === 0) {
      throw new EngineError(tidied(JSON.parse(answer)));
    }
    return answer;
  }

  /** Frees a run. For `Run`. */
  free(run: number, generation: number): void {
    if (generation === this.#generation) {
      this.#exports?.free_run(run);
    }
  }

  /** Returns views of the module's memory. They hold until the next call. */
  views(columns: Column[]): [Column, Float64Array][] {
    const buffer = this.#living().memory.buffer;
    return columns.map((column) => [column, new Float64Array(buffer, column[3], column[4])]);
  }

  #take(instance: WebAssembly.Instance): void {
    const exports = instance.exports as unknown as Exports;
    if (exports.version() !== VERSION) {
      throw new EngineError({ message: "the page and the simulator are of different versions; build both: make web" });
    }
    exports.start();
    this.#exports = exports;
  }

  #living(): Exports {
    if (this.#exports === undefined) {
      // Synchronous, which browsers allow in workers, and in pages for small modules only.
      this.#take(new WebAssembly.Instance(this.#module, {}));
    }
    return this.#exports as Exports;
  }

  /** Writes the inputs of the next call. */
  #give(scenario: string, files: Files = new Map()): void {
    const encoder = new TextEncoder();
    const inputs: Uint8Array[] = [encoder.encode(scenario)];
    for (const [name, contents] of files) {
      inputs.push(encoder.encode(name), contents);
    }
    const exports = this.#living();
    for (const input of inputs) {
      try {
        const at = exports.reserve(input.length);
        // The memory may have grown: its buffer is another one.
        new Uint8Array(exports.memory.buffer, at, input.length).set(input);
      } catch (error) {
        throw this.#broken(error);
      }
    }
  }

  #broken(error: unknown): EngineError {
    const reason = this.#exports === undefined ? String(error) : reasonOf(this.#exports, error);
    this.#exports = undefined;
    this.#generation += 1;
    return new EngineError({ message: `the simulator stopped: ${reason}` });
  }
}

/** A run of a scenario. */
export class Run {
  readonly #engine: Engine;
  readonly #number: number;
  readonly #generation: number;

  /** Use `Engine.open`. `l4s` says which flows send L4S packets. */
  constructor(engine: Engine, number: number, readonly l4s: boolean[], generation: number) {
    this.#engine = engine;
    this.#number = number;
    this.#generation = generation;
  }

  /** Simulates up to virtual time `untilS`. */
  advance(untilS: number): Progress {
    return this.#call((exports) => exports.advance(this.#number, untilS));
  }

  /** Returns the series so far: views of the module's memory, which hold until the next call. */
  series(): Series {
    const series: Series = { time_s: new Float64Array(), flows: [], links: [] };
    for (const [[group, index, name], values] of this.#views((exports) => exports.series(this.#number))) {
      if (group === "") {
        series.time_s = values;
      } else {
        const rows: Partial<Record<string, Float64Array>>[] = series[group] as never;
        (rows[index] ??= {})[name] = values;
      }
    }
    return series;
  }

  /** Returns what left the links, or ended there, from virtual time `sinceS` on: views, which hold until the next call. */
  packets(sinceS: number): PacketLog {
    const links: Partial<Record<string, Float64Array>>[] = [];
    for (const [[, index, name], values] of this.#views((exports) => exports.packets(this.#number, sinceS))) {
      (links[index] ??= {})[name] = values;
    }
    return { links: links as unknown as LinkPackets[] };
  }

  /** Returns the figures as JSON, as the native simulator makes it. Throws EngineError before the run's end. */
  result(): string {
    return this.#sealed().json;
  }

  /** Returns the SHA-256 of the result. Throws EngineError before the run's end. */
  digest(): string {
    return this.#sealed().digest;
  }

  /** Frees the run's memory. */
  free(): void {
    this.#engine.free(this.#number, this.#generation);
  }

  #sealed(): { json: string; digest: string } {
    return this.#call((exports) => exports.result(this.#number));
  }

  #call<Answer>(of: (exports: Exports) => number): Answer {
    return this.#engine.call(of, this.#generation);
  }

  #views(of: (exports: Exports) => number): [Column, Float64Array][] {
    return this.#engine.views(this.#call<Column[]>(of));
  }
}

/** Why the module stopped, by what it left in its memory. */
function reasonOf(exports: Exports, error: unknown): string {
  const buffer = exports.memory.buffer;
  const length = exports.panic_length();
  if (length > 0) {
    return new TextDecoder().decode(new Uint8Array(buffer, exports.panic_at(), length));
  }
  if (buffer.byteLength > FULL_BYTES) {
    return "its memory is full; record fewer packets, make the run shorter, or run it with the command ccarena";
  }
  return String(error);
}

function tidied(problem: { path?: string | null; message: string }): Problem {
  return problem.path ? { path: problem.path, message: problem.message } : { message: problem.message };
}
