// Series over time, drawn by uPlot (https://github.com/leeoniya/uPlot). Each frame redraws as many charts as fit into
// its share of the time, the one that has waited longest first, so that twenty flows do not cost the packets their frames.

import uPlot from "uplot";

import { flowColour, flowDash, palette } from "./palette";
import { nice } from "./scenario";
import type { Growing, Recording } from "./recording";

/** Chart of one column of the flows or the links. */
export interface Kind {
  title: string;
  unit: string;
  of: "flow" | "link";
  column: (recording: Recording, index: number) => Growing;
  /** Capacity of the links behind the lines. */
  capacity?: boolean;
  /** The same in another unit, for the values under the pointer. */
  beside?: { unit: string; column: (recording: Recording, index: number) => Growing };
}

/** Dashes tell links apart that have no flow's colour. */
const LINK_DASHES = [[], [7, 3], [10, 3, 2, 3], [4, 4], [12, 4], [2, 2]];
const MARKS = [2, 3];

export const KINDS: Kind[] = [
  { title: "Rate", unit: "Mbit/s", of: "flow", column: (r, i) => r.flows[i]!.rate_mbps, capacity: true },
  { title: "Round-trip time", unit: "ms", of: "flow", column: (r, i) => r.flows[i]!.rtt_ms },
  { title: "Queueing delay", unit: "ms", of: "link", column: (r, i) => r.links[i]!.queueing_ms, beside: { unit: "kB", column: (r, i) => r.links[i]!.queue_kb } },
  { title: "Congestion window", unit: "kB", of: "flow", column: (r, i) => r.flows[i]!.window_kb },
  { title: "Drops and marks", unit: "packets/s", of: "link", column: (r, i) => r.links[i]!.dropped_per_s },
];

/** Most points of a line, and most flows with lines. */
const MOST_POINTS = 420;
export const MOST_LINES = 24;
const MOST_LINKS = 6;
/** Height of a chart, px; less on a low screen, such as a projector's. */
const HEIGHT = innerHeight <= 800 ? 132 : 190;

interface Line {
  recording: Recording;
  column: Growing;
  /** Number of the flow, or -1 - the number of the link. */
  of: number;
  label: string;
  /** Values of the same in another unit. */
  beside?: Growing;
  /** Words in the chart's key; a line without any is a flow's, which the buttons name. */
  key?: string;
  stroke: () => string;
  dash: number[];
  width: number;
  fill?: () => string;
  /** Means of the groups of bins that are whole: a line grows, and its past stays. */
  past: Float64Array;
  known: number;
  /** Points whose height was looked at. */
  seen: number;
}

/** Returns the means of a line's groups of bins up to bin `stop`, as `points` numbers; NaN where there is no value. */
function means(line: Line, group: number, stop: number, points: number): Float64Array {
  if (line.past.length < points) {
    const longer = new Float64Array(Math.max(points, MOST_POINTS + 2)).fill(NaN);
    longer.set(line.past.subarray(0, line.known));
    line.past = longer;
  }
  const { values } = line.column;
  const mean = (from: number, to: number): number => {
    let sum = 0;
    let count = 0;
    for (let i = from; i < to; i++) {
      const value = values[i]!;
      if (value === value) {
        sum += value;
        count++;
      }
    }
    return count > 0 ? sum / count : NaN;
  };
  const whole = Math.floor(stop / group);
  for (; line.known < whole; line.known++) line.past[line.known] = mean(line.known * group, (line.known + 1) * group);
  const y = line.past.slice(0, points);
  y.fill(NaN, whole);
  if (whole * group < stop) y[whole] = mean(whole * group, stop);
  return y;
}

const fresh = (): Pick<Line, "past" | "known" | "seen"> => ({ past: new Float64Array(0), known: 0, seen: 0 });

class Chart {
  private plot: uPlot | null = null;
  private lines: Line[] = [];
  private outline = "";
  private top = 0;
  private highest = 0;
  private capacity = 0;
  private readonly readout: HTMLElement;
  private readonly key: HTMLElement;
  drawnAt = -1;

  constructor(readonly place: HTMLElement, readonly kind: Kind, private readonly seek: (timeS: number) => void, private readonly height: number) {
    this.readout = place.querySelector("small")!;
    this.key = place.querySelector(".key")!;
  }

  shape(lines: Line[], durationS: number): void {
    // A slider that moves gives the same lines of a new run, many times a second.
    const outline = JSON.stringify([durationS, palette(), lines.map((line) => [line.label, line.of, line.dash, line.width])]);
    this.lines = lines;
    if (this.plot && outline === this.outline) {
      this.drawnAt = -1;
      return;
    }
    this.outline = outline;
    this.showKey();
    this.plot?.destroy();
    this.top = this.highest = this.capacity = 0;
    this.drawnAt = -1;
    const colours = palette();
    const axis = { stroke: colours.muted, grid: { stroke: colours.grid, width: 1 }, ticks: { show: false }, font: '11px system-ui, "DejaVu Sans", sans-serif' };
    this.plot = new uPlot(
      {
        width: Math.max(this.place.clientWidth, 60), height: this.height, legend: { show: false }, padding: [8, 8, 0, 0],
        scales: { x: { time: false, range: () => [0, durationS] }, y: { range: () => [0, this.top || 1] } },
        axes: [
          { ...axis, size: 24, space: 60, values: (_, values) => values.map((value) => `${value}${value === 0 ? " s" : ""}`) },
          { ...axis, size: 44, space: 34, values: (_, values) => values.map((value) => (value >= 10000 ? `${value / 1000}k` : String(value))) },
        ],
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        hooks: { setCursor: [(u) => this.read(u)] },
        series: [
          {},
          ...lines.map((line): uPlot.Series => ({
            label: line.label, stroke: line.stroke, width: line.width, dash: line.dash, points: { show: false }, spanGaps: true,
            ...(line.fill ? { fill: line.fill } : {}),
          })),
        ],
      },
      [[], ...lines.map(() => [])] as uPlot.AlignedData,
      this.place,
    );
    const { over } = this.plot;
    over.addEventListener("click", (event) => this.seek(this.plot!.posToVal(event.offsetX, "x")));
  }

  /** Names the lines that the flows' buttons do not name. */
  private showKey(): void {
    this.key.replaceChildren(...this.lines.filter((line) => line.key !== undefined).map((line) => {
      const entry = document.createElement("span");
      const sample = entry.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
      for (const [name, value] of Object.entries({ width: "22", height: "10", "aria-hidden": "true" })) sample.setAttribute(name, value);
      const part = sample.appendChild(document.createElementNS("http://www.w3.org/2000/svg", line.fill ? "rect" : "path"));
      const about: Record<string, string> = line.fill
        ? { width: "22", height: "10", rx: "2", fill: line.fill() }
        : { d: "M0 5H22", stroke: line.stroke(), "stroke-width": String(line.width), "stroke-dasharray": line.dash.join(" ") };
      for (const [name, value] of Object.entries(about)) part.setAttribute(name, value);
      entry.append(line.key!);
      return entry;
    }));
  }

  clear(): void {
    this.plot?.destroy();
    this.plot = null;
    this.outline = "";
    this.lines = [];
    this.key.replaceChildren();
    this.readout.textContent = this.kind.unit;
  }

  /** Says the values under the pointer in the chart's head. */
  private read(plot: uPlot): void {
    const index = plot.cursor.idx;
    const values = index === null || index === undefined ? [] : this.lines.flatMap((line, l) => {
      const value = plot.data[l + 1]?.[index];
      return line.width > 0 && plot.series[l + 1]!.show && typeof value === "number" && value === value ? [`${line.label} ${Number(value.toPrecision(3))}${this.other(line, plot.data[0][index!]!)}`] : [];
    });
    const time = index === null || index === undefined ? undefined : plot.data[0][index];
    this.readout.textContent = values.length === 0 ? this.kind.unit : `${this.kind.unit} at ${time!.toFixed(1)} s: ${values.slice(0, 4).join(", ")}${values.length > 4 ? " …" : ""}`;
  }

  private other(line: Line, timeS: number): string {
    const value = line.beside ? line.recording.at(line.beside, timeS) : NaN;
    return Number.isFinite(value) ? ` (${Number(value.toPrecision(3))} ${this.kind.beside!.unit})` : "";
  }

  resize(): void {
    this.plot?.setSize({ width: Math.max(this.place.clientWidth, 60), height: this.height });
  }

  show(hidden: ReadonlySet<number>): void {
    this.lines.forEach((line, index) => this.plot?.setSeries(index + 1, { show: !(line.of >= 0 && hidden.has(line.of)) }, false));
    this.drawnAt = -1;
  }

  /** Draws the lines up to a time. A kept run, which is over, is drawn whole. */
  draw(timeS: number, current: Recording, durationS: number): void {
    if (!this.plot) return;
    const times = current.times;
    const end = times.after(timeS);
    const kept = this.lines.find((line) => line.recording !== current)?.recording;
    const longest = Math.max(end, kept ? kept.times.length : 0);
    const base = kept && kept.times.length > end ? kept.times : times;
    // All bins of a group have one number for the whole run, so that lines do not flicker as they grow.
    const whole = times.length > 1 ? durationS / (times.values[1]! - times.values[0]!) : 1;
    const group = Math.max(1, Math.ceil(whole / MOST_POINTS));
    const points = Math.ceil(longest / group);
    const x = new Float64Array(points);
    for (let p = 0; p < points; p++) x[p] = base.values[Math.min((p + 1) * group, longest) - 1]!;
    const data: Float64Array[] = [x];
    let { highest, capacity } = this;
    for (const line of this.lines) {
      const stop = line.recording === current ? end : line.recording.times.length;
      const y = means(line, group, stop, points);
      // The last point may have come while the run went on.
      for (let p = line.seen; p * group < stop; p++) {
        if (line.width === 0) capacity = Math.max(capacity, y[p] || 0);
        else highest = Math.max(highest, y[p] || 0);
      }
      line.seen = Math.floor(stop / group);
      data.push(y);
    }
    Object.assign(this, { highest, capacity });
    // Many flows share a link: their lines get the room, and the capacity ends above.
    const top = capacity <= highest * 2.5 ? Math.max(highest, capacity) : highest;
    if (top > this.top) this.top = nice(top * 1.04);
    // uPlot takes null for a gap, and NaN as none: lines stop at NaN.
    this.plot.setData(data as unknown as uPlot.AlignedData, false);
    this.plot.batch(() => {
      this.plot!.setScale("x", { min: 0, max: durationS });
      this.plot!.setScale("y", { min: 0, max: this.top || 1 });
    });
    this.drawnAt = timeS;
  }
}

export class Charts {
  readonly charts: Chart[];
  private current: Recording | null = null;
  private durationS = 1;
  private next = 0;

  constructor(parent: HTMLElement, seek: (timeS: number) => void, kinds = KINDS, height = HEIGHT) {
    this.charts = kinds.map((kind) => {
      const figure = parent.appendChild(document.createElement("div"));
      figure.className = "chart";
      const head = figure.appendChild(document.createElement("h3"));
      head.append(kind.title);
      head.appendChild(document.createElement("small")).textContent = kind.unit;
      figure.appendChild(document.createElement("div")).className = "key";
      return new Chart(figure, kind, seek, height);
    });
  }

  /** Takes the run away. */
  clear(): void {
    this.current = null;
    for (const chart of this.charts) chart.clear();
  }

  /**
   * Prepares the charts for a run, over a kept one if there is one. `linkFlow` is the flow whose colour a link has; `partner`
   * the flow now that a flow of the kept run is compared with, or -1.
   */
  shape(recording: Recording, kept: Recording | null, durationS: number, linkFlow: (link: number) => number, partner: (flow: number) => number = (flow) => flow): void {
    this.current = recording;
    this.durationS = durationS;
    for (const chart of this.charts) {
      const lines: Line[] = [];
      const { kind } = chart;
      const stroke = (of: number) => () => (of >= 0 ? flowColour(of) : palette().ink);
      for (const source of kept ? [kept, recording] : [recording]) {
        const old = source !== recording;
        const names = kind.of === "flow" ? source.flowNames.slice(0, MOST_LINES) : source.linkNames.slice(0, MOST_LINKS);
        if (kind.capacity && !old) {
          source.linkNames.slice(0, 1).forEach((name, link) => lines.push({
            recording: source, column: source.links[link]!.capacity_mbps, of: -1 - link, label: `capacity of ${name}`, key: source.linkNames.length > 1 ? `capacity of ${name}` : "capacity", stroke: () => "rgba(0,0,0,0)",
            dash: [], width: 0, fill: () => palette().capacity, ...fresh(),
          }));
        }
        names.forEach((name, index) => {
          const mate = !old ? index : kind.of === "flow" ? partner(index) : recording.linkNames.indexOf(name);
          const of = kind.of === "flow" ? mate : mate >= 0 ? linkFlow(mate) : -1;
          const colour = stroke(of);
          // A kept run has thin lines; dashes tell flows and links apart.
          const line = { recording: source, of: kind.of === "flow" && mate >= 0 ? mate : -1 - index, width: old ? 0.8 : 1.8 };
          const several = kind.of === "link" && names.length > 1;
          const dash = kind.of === "flow" ? flowDash(index) : of >= 0 ? [] : LINK_DASHES[index % LINK_DASHES.length]!;
          const first = old && index === 0 ? { key: "A: thin" } : {};
          const drops = kind.title.startsWith("Drops");
          const own = !old && several ? { key: name } : !old && drops ? { key: "drops" } : first;
          const beside = kind.beside ? { beside: kind.beside.column(source, index) } : {};
          lines.push({ ...line, ...fresh(), ...own, ...beside, label: old ? `A: ${name}` : name, column: kind.column(source, index), stroke: old && of < 0 ? () => palette().muted : colour, dash });
          if (drops) {
            const marks = !old && index === 0 ? { key: several ? "dotted: marks" : "marks" } : {};
            lines.push({ ...line, ...fresh(), ...marks, label: `${old ? "A: " : ""}marks at ${name}`, column: source.links[index]!.marked_per_s, stroke: of >= 0 ? colour : () => palette().partly, dash: MARKS });
          }
        });
      }
      chart.shape(lines, durationS);
    }
  }

  show(hidden: ReadonlySet<number>): void {
    for (const chart of this.charts) chart.show(hidden);
  }

  resize(): void {
    for (const chart of this.charts) {
      chart.resize();
      chart.drawnAt = -1;
    }
  }

  /** Draws charts that are not up to date until `until` (of performance.now); at least one. */
  draw(timeS: number, until: number): void {
    if (!this.current) return;
    for (let tried = 0; tried < this.charts.length; tried++) {
      const chart = this.charts[this.next]!;
      this.next = (this.next + 1) % this.charts.length;
      if (chart.drawnAt === timeS) continue;
      chart.draw(timeS, this.current, this.durationS);
      if (performance.now() >= until) return;
    }
  }
}
