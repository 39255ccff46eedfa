// The worker: it has the engine and runs one scenario at a time in short steps, so that it hears a new order in between.

import { type Engine, EngineError, load, type Run } from "./engine";
import { type Figures, figures, type Result } from "./figures";
import { outline } from "./scenario";
import { type Columns, FLOW, GONE, LINK, PACKET, Recording, type Update } from "./recording";

export type Files = Map<string, Uint8Array>;

export type Order =
  | { kind: "load"; wasm: ArrayBuffer }
  | { kind: "read"; id: number; text: string }
  | { kind: "check"; id: number; scenario: string; files: Files }
  | { kind: "run"; id: number; scenario: string; files: Files; seed?: number; packets: number; whole: boolean };

export type News =
  | { kind: "loaded"; registry: string }
  | { kind: "failed"; id: number | null; message: string; path?: string | undefined }
  | { kind: "read"; id: number; document: unknown }
  | { kind: "opened"; id: number; flows: string[]; links: string[]; paths: number[][]; baseRttsMs: number[]; rooms: number[]; l4s: boolean[]; packets: boolean; estimate: number; durationS: number }
  | { kind: "update"; id: number; update: Update }
  | { kind: "finished"; id: number; result: string; digest: string; tookMs: number; figures?: Figures };

interface Normalised {
  duration_s: number;
  estimate: { packets: number };
  links: { name: string; queue?: { type?: string; packets?: number; bytes?: number } }[];
  flows: { name: string; path: string[]; base_rtt_ms: number }[];
}

/** Most packets of a run: a minute or so. */
const MOST_PACKETS = 2e8;
/** Wall time of one step, ms. */
const STEP_MS = 24;

const post = (news: News, moved: Transferable[] = []): void => (self as unknown as Worker).postMessage(news, moved);
let engine: Engine | null = null;
let current: { id: number; run: Run } | null = null;
/** Takes turns with orders: a step of a run asks for the next one. A step that a replaced run has asked for must not be one of the
 * new run, or every change of a scenario would leave one more step between two orders. */
const pause = new MessageChannel();
let goOn: (() => void) | null = null;
pause.port1.onmessage = (event: MessageEvent<number>) => {
  if (event.data === current?.id) goOn?.();
};

self.onmessage = (event: MessageEvent<Order>) => {
  void obey(event.data);
};

async function obey(order: Order): Promise<void> {
  const id = order.kind === "load" ? null : order.id;
  try {
    if (order.kind === "load") {
      engine = await load(order.wasm);
      post({ kind: "loaded", registry: engine.registry() });
    } else if (engine === null) {
      throw new Error("the engine is not loaded");
    } else if (order.kind === "read") {
      const found = outline(JSON.parse(engine.read(order.text)));
      if (typeof found === "string") throw new Error(found);
      post({ kind: "read", id: order.id, document: found });
    } else if (order.kind === "check") {
      const [first] = engine.check(order.scenario, order.files);
      if (first) throw new EngineError(first);
      normalised(engine, order.scenario, order.files);
      post({ kind: "read", id: order.id, document: null });
    } else {
      start(engine, order);
    }
  } catch (error) {
    const fault = error as { message?: string; path?: string };
    post({ kind: "failed", id, message: fault.message ?? String(error), path: fault.path });
  }
}

/** Returns the scenario with its defaults; throws if it asks for more packets than a page can run. */
function normalised(engine: Engine, scenario: string, files: Files): Normalised {
  const whole = JSON.parse(engine.normalise(scenario, files)) as Normalised;
  const many = whole.estimate.packets;
  if (many > MOST_PACKETS) {
    const millions = (count: number): string => `${(count / 1e6).toFixed(0)} million`;
    throw new Error(`the run asks for about ${millions(many)} packets, and this page takes at most ${millions(MOST_PACKETS)}: shorten it, lower its rates, or run it with the command`);
  }
  return whole;
}

function start(engine: Engine, order: Order & { kind: "run" }): void {
  current?.run.free();
  current = null;
  goOn = null;
  const began = performance.now();
  const whole = normalised(engine, order.scenario, order.files);
  const packets = whole.estimate.packets <= order.packets;
  const run = engine.open(order.scenario, order.files, { packets, ...(order.seed === undefined ? {} : { seed: order.seed }) });
  current = { id: order.id, run };
  const links = whole.links.map((link) => link.name);
  const paths = whole.flows.map((flow) => flow.path.map((name) => links.indexOf(name)));
  const rooms = whole.links.map((link) => link.queue?.packets ?? Math.ceil((link.queue?.bytes ?? 0) / 1500));
  const flows = whole.flows.map((flow) => flow.name);
  const baseRttsMs = whole.flows.map((flow) => flow.base_rtt_ms);
  post({ kind: "opened", id: order.id, flows, links, paths, baseRttsMs, rooms, l4s: run.l4s, packets, estimate: whole.estimate.packets, durationS: whole.duration_s });
  const sent = new Sent(run, packets);
  const kept = order.whole ? new Recording(flows, links) : null;
  let stepS = Math.max(whole.duration_s / 2000, 0.001);
  let nowS = 0;
  goOn = () => {
    if (current?.run !== run) return;
    try {
      const from = performance.now();
      const progress = run.advance(nowS + stepS);
      nowS = progress.nowS;
      const { update, moved } = sent.more(progress);
      if (kept) kept.append(update);
      else post({ kind: "update", id: order.id, update }, moved);
      const took = performance.now() - from;
      stepS = Math.min(Math.max(stepS * Math.min(Math.max(STEP_MS / Math.max(took, 0.1), 0.3), 2), 1e-4), whole.duration_s);
      if (!progress.done) {
        pause.port2.postMessage(order.id);
        return;
      }
      const result = run.result();
      const news: News = { kind: "finished", id: order.id, result, digest: run.digest(), tookMs: performance.now() - began };
      if (kept) news.figures = figures(JSON.parse(result) as Result, kept, paths);
      post(news);
      run.free();
      current = null;
    } catch (error) {
      const fault = error as { message?: string; path?: string };
      post({ kind: "failed", id: order.id, message: fault.message ?? String(error), path: fault.path });
    }
  };
  pause.port2.postMessage(order.id);
}

/** What of a run was sent already. */
class Sent {
  private rows = 0;
  private sinceS = 0;
  private lastS = 0;

  constructor(private readonly run: Run, private readonly packets: boolean) {}

  more(progress: { nowS: number; done: boolean; packets: number }): { update: Update; moved: Transferable[] } {
    const moved: Transferable[] = [];
    const fresh = (column: Float64Array, scale = 1): Float64Array => {
      const values = column.slice(this.rows);
      if (scale !== 1) for (let i = 0; i < values.length; i++) values[i]! *= scale;
      moved.push(values.buffer);
      return values;
    };
    const series = this.run.series();
    const times = fresh(series.time_s);
    const bin = times.length > 0 ? (times[times.length - 1]! - this.lastS) / times.length : 1;
    const perSecond = bin > 0 ? 1 / bin : 1;
    const flows = series.flows.map((flow) => ({ rate_mbps: fresh(flow.rate_mbps), rtt_ms: fresh(flow.rtt_ms), window_kb: fresh(flow.window_bytes, 1e-3) }) satisfies Columns<(typeof FLOW)[number]>);
    const links = series.links.map((link) => ({
      queue_kb: fresh(link.queue_bytes, 1e-3), queueing_ms: fresh(link.queueing_ms), capacity_mbps: fresh(link.capacity_mbps),
      dropped_per_s: fresh(link.dropped_packets, perSecond), marked_per_s: fresh(link.marked_packets, perSecond),
    }) satisfies Columns<(typeof LINK)[number]>);
    if (times.length > 0) this.lastS = times[times.length - 1]!;
    this.rows += times.length;

    const logs: Update["logs"] = [];
    const gone: Update["gone"] = [];
    if (this.packets) {
      // Rows of the last instant may still get company; they go with the next update.
      const until = progress.done ? Infinity : progress.nowS;
      for (const link of this.run.packets(this.sinceS).links) {
        const count = below(link.departure_s, until);
        logs.push(Object.fromEntries(PACKET.map((key) => {
          const values = link[key].slice(0, count);
          moved.push(values.buffer);
          return [key, values];
        })) as Columns<(typeof PACKET)[number]>);
        const ended = [[link.dropped_s, link.dropped_flow], [link.lost_s, link.lost_flow], [link.policed_s, link.policed_flow]] as const;
        const rows = ended.flatMap(([times, flows], kind) => Array.from({ length: below(times, until) }, (_, i) => [times[i]!, flows[i]!, kind]));
        rows.sort((a, b) => a[0]! - b[0]!);
        gone.push(Object.fromEntries(GONE.map((key, place) => [key, Float64Array.from(rows, (row) => row[place]!)])) as Columns<(typeof GONE)[number]>);
      }
      this.sinceS = progress.nowS;
    }
    return { update: { nowS: progress.nowS, done: progress.done, packets: progress.packets, times, flows, links, logs, gone }, moved };
  }
}

function below(sorted: Float64Array, limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
