// The picture of packets on their way: from the senders into each link's queue, through the link, over the wire.
//
// A packet crosses the wire on the screen in its own delay if playback is slow enough to see it. At higher speeds the
// wire shows the stream of a longer time, and if more packets are on it than have room side by side, one in n is drawn.

import { flowColour, palette } from "./palette";
import type { Recording } from "./recording";

/** Link as the picture needs it. */
export interface Row {
  name: string;
  /** Flows that cross it, by number. */
  flows: number[];
  /** Room of its queue in packets; 0 if it is not known. */
  room: number;
  /** Its capacity changes from bin to bin. */
  varies: boolean;
  /** Queues that the discipline keeps apart, in words; empty if packets wait in one queue. */
  apart: string;
  /** Flows whose packets wait in the low-latency queue of a DualPI2 (RFC 9332); null if the discipline is another. */
  l4s: ReadonlySet<number> | null;
  /** Names of the links before and after it on a flow's path; empty if there is none. */
  from: string;
  to: string;
  /** One-way delay; NaN if the page does not know it. */
  delayMs(timeS: number): number;
}

/** What is at a link at a time: indices of its log. */
interface Here {
  timeS: number;
  /** Number of packets that have left. */
  gone: number;
  waiting: number[];
  entering: number[];
  /** Packets that wait and are in no log, since they have not left by the end of what is simulated. */
  unknown: number;
}

/** Room of a packet on the wire, px. */
const APART = 9;
/** Shortest time in which a packet crosses the wire on the screen, s. */
const CROSSING_S = 0.9;
/** Longest time that the last picture may lie before the end, s: what waits at the end has not left, and is in no log. */
const MOST_BACK_S = 1;
/** Part of the tank that the low-latency queue has: it is short, or its senders would be marked. */
const L4S_PART = 0.4;
/** Most drops that are drawn at once. */
const MOST_DROPS = 14;
const MOST_ROWS = 3;

export class PacketPicture {
  private readonly context: CanvasRenderingContext2D;
  private width = 0;
  private height = 0;
  private rows: Row[] = [];
  /** Longest queue of each link so far in the recording, packets, and the bins that were looked at. */
  private peaks: { packets: number; bins: number; of: Recording | null }[] = [];

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d")!;
  }

  shape(rows: Row[]): void {
    this.rows = rows.slice(0, MOST_ROWS);
    this.peaks = this.rows.map(() => ({ packets: 0, bins: 0, of: null }));
    this.resize();
  }

  resize(): void {
    const scale = Math.min(devicePixelRatio || 1, 2);
    const narrow = this.canvas.clientWidth < 560;
    this.width = this.canvas.clientWidth;
    this.height = this.rows.length > 1 ? this.rows.length * 88 : narrow ? 132 : 150;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  /** Takes the picture away. */
  clear(): void {
    this.rows = [];
    this.context.clearRect(0, 0, this.width, this.height);
  }

  /** Draws the links at a time. `speed` is virtual seconds per second; `hidden` are flows that are switched off. */
  draw(recording: Recording, timeS: number, speed: number, hidden: ReadonlySet<number>): void {
    const c = this.context;
    c.clearRect(0, 0, this.width, this.height);
    const height = this.height / this.rows.length;
    this.rows.forEach((row, index) => this.link(recording, row, index, index * height, height, timeS, speed, hidden));
  }

  /** Returns how many packets the tank is drawn for: its limit, but not much more than the queue ever is. */
  private room(recording: Recording, row: Row, index: number, now: number): number {
    const peak = this.peaks[index]!;
    if (peak.of !== recording) Object.assign(peak, { bins: 0, of: recording });
    const queue = recording.links[index]!.queue_kb;
    for (; peak.bins < queue.length; peak.bins++) peak.packets = Math.max(peak.packets, queue.values[peak.bins]! / 1.5);
    peak.packets = Math.max(peak.packets, now);
    return Math.max(Math.min(row.room || Infinity, Math.ceil(peak.packets * 1.15)), 24, now);
  }

  /** Returns who is at a link at a time. A queue that serves flows in turns has no one order of departure. */
  private here(recording: Recording, index: number, timeS: number, entryS: number): Here {
    const { arrival_s: arrival, departure_s: departure, serialisation_s: own, bytes } = recording.logs[index]!;
    const gone = departure.after(timeS);
    const found: Here = { timeS, gone, waiting: [], entering: [], unknown: 0 };
    const last = Math.min(departure.length, gone + 30000);
    let empty = 0;
    let inside = 0;
    for (let i = gone; i < last && empty < 400; i++) {
      if (arrival.values[i]! <= timeS) {
        inside++;
        // The packet that the link sends no longer waits.
        if (departure.values[i]! - own.values[i]! >= timeS) found.waiting.push(i);
        empty = 0;
      } else if (arrival.values[i]! <= timeS + entryS) {
        found.entering.push(i);
        empty = 0;
      } else empty++;
    }
    if (gone + inside >= departure.length) {
      const kb = recording.at(recording.links[index]!.queue_kb, timeS);
      const each = gone > 0 ? bytes.values[gone - 1]! / 1000 : 1.5;
      found.unknown = Math.max(0, Math.round((kb || 0) / each) - inside);
    }
    return found;
  }

  /** Returns the words on a queue: packets, and how long they wait in all. */
  private words(recording: Recording, row: Row, index: number, here: Here): string {
    const { arrival_s: arrival, departure_s: departure, serialisation_s: own, flow: of } = recording.logs[index]!;
    const waitMs = (i: number): number => Math.max(0, departure.values[i]! - arrival.values[i]! - own.values[i]!) * 1000;
    const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
    const many = here.waiting.length + here.unknown;
    const packets = `${many} packet${many === 1 ? "" : "s"}`;
    // Mean wait of packets that have left in the last while.
    const wait = (counts: (flow: number) => boolean): string => {
      let sum = 0;
      let count = 0;
      for (let i = here.gone - 1; i >= 0 && departure.values[i]! > here.timeS - 0.2; i--) {
        if (!counts(of.values[i]!)) continue;
        sum += waitMs(i);
        count++;
      }
      return count > 0 ? ms(sum / count) : "";
    };
    const { l4s } = row;
    if (l4s) {
      const low = here.waiting.filter((i) => l4s.has(of.values[i]!)).length;
      const queues = [["L4S", low, wait((flow) => l4s.has(flow))], ["classic", many - low, wait((flow) => !l4s.has(flow))]] as const;
      return queues.map(([name, count, waited]) => [`${name} ${count}`, waited].filter(Boolean).join(" · ")).join(", ");
    }
    if (row.apart !== "" && row.flows.length <= 3) {
      const waits = row.flows.map((flow) => [recording.flowNames[flow], wait((other) => other === flow)] as const);
      return [packets, waits.filter(([, waited]) => waited !== "").map((words) => words.join(" ")).join(", ")].filter(Boolean).join(" · ");
    }
    if (many === 0) return `${packets} · 0 ms`;
    if (row.apart !== "" || here.unknown > 0 || here.waiting.length === 0) return packets;
    // The newest waits behind all others.
    const newest = here.waiting.reduce((late, i) => (arrival.values[i]! >= arrival.values[late]! ? i : late), here.waiting[0]!);
    return `${packets} · ${ms(waitMs(newest))}`;
  }

  private link(recording: Recording, row: Row, index: number, top: number, height: number, nowS: number, speed: number, hidden: ReadonlySet<number>): void {
    const c = this.context;
    const colours = palette();
    const log = recording.logs[index]!;
    const narrow = this.width < 560;
    const small = height < 120;
    const font = `${narrow ? 11 : 12}px system-ui, "DejaVu Sans", sans-serif`;
    const left = narrow ? 40 : 96;
    const tank = { x: left, y: top + (small ? 22 : 28), w: Math.round(this.width * (narrow ? 0.34 : 0.38)), h: height - (small ? 44 : 56) };
    const server = tank.x + tank.w + 8;
    const wireFrom = server + (narrow ? 12 : 18);
    const wireTo = this.width - (narrow ? 20 : 30);
    const middle = tank.y + tank.h / 2;
    const numbers = row.flows.length;
    const lane = (flow: number): number => {
      const place = row.flows.indexOf(flow);
      return numbers < 2 ? middle : tank.y + 4 + ((tank.h - 8) * place) / (numbers - 1);
    };

    // The tank, the link and the wire, which stand still.
    c.lineWidth = 1;
    c.fillStyle = colours.surface;
    c.strokeStyle = colours.edge;
    c.beginPath();
    c.roundRect(tank.x, tank.y, tank.w, tank.h, 5);
    c.fill();
    c.stroke();
    // The queues in the tank, from the top.
    const upper = row.l4s ? Math.round(tank.h * L4S_PART) : 0;
    if (upper > 0) {
      c.beginPath();
      c.moveTo(tank.x, tank.y + upper + 0.5);
      c.lineTo(tank.x + tank.w, tank.y + upper + 0.5);
      c.stroke();
    }
    c.fillStyle = colours.raised;
    c.beginPath();
    c.roundRect(wireFrom, middle - 8, wireTo - wireFrom, 16, 8);
    c.fill();
    const dots = Math.min(numbers, 40);
    for (let place = 0; place < dots; place++) {
      const flow = row.flows[dots < numbers ? Math.floor((place * numbers) / dots) : place]!;
      c.globalAlpha = hidden.has(flow) ? 0.25 : 1;
      c.fillStyle = flowColour(flow);
      const radius = Math.max(2, Math.min(narrow ? 5 : 6, tank.h / (dots * 2.6)));
      for (const x of [8 + radius, this.width - 8 - radius]) {
        c.beginPath();
        c.arc(x, lane(flow), radius, 0, 7);
        c.fill();
      }
    }
    c.globalAlpha = 1;

    // Who is in the queue, and who is on the wire.
    const entryS = Math.max(CROSSING_S * speed * 0.25, 0.002);
    let here = this.here(recording, index, nowS, entryS);
    if (here.unknown > 0 && log.arrival_s.length > 0) {
      const backS = log.arrival_s.values[log.arrival_s.length - 1]!;
      if (nowS - backS <= MOST_BACK_S) here = { ...this.here(recording, index, Math.min(backS, nowS), entryS), unknown: 0 };
    }
    const { timeS, gone, waiting: inTank, entering, unknown } = here;
    const delayMs = row.delayMs(timeS);
    const crossingS = Math.max(delayMs / 1000 || 0, CROSSING_S * speed);
    const { arrival_s: arrival, departure_s: departure, flow: of } = log;
    const from = departure.after(timeS - crossingS);
    const skip = Math.max(1, Math.ceil(((gone - from) * APART) / (wireTo - wireFrom)));
    const size = narrow ? 5 : 6;
    // Many flows in few colours: packets of one colour are filled together.
    const boxes = new Map<string, number[]>();
    const box = (flow: number, x: number, y: number, side: number): void => {
      if (hidden.has(flow)) return;
      const colour = flowColour(flow);
      let list = boxes.get(colour);
      if (!list) boxes.set(colour, (list = []));
      list.push(x, y, side);
    };
    for (let i = from + ((skip - (from % skip)) % skip); i < gone; i += skip) {
      const flow = of.values[i]!;
      const way = (timeS - departure.values[i]!) / crossingS;
      const x = wireFrom + way * (wireTo - wireFrom);
      const fan = way > 0.86 ? (way - 0.86) / 0.14 : 0;
      box(flow, x - size / 2, middle + (lane(flow) - middle) * fan * fan - size / 2, size);
    }

    const room = this.room(recording, row, index, inTank.length);
    const shown = Math.min(room, 1400);
    const lower = tank.h - upper;
    let cell = Math.max(3, Math.min(small ? 11 : 15, Math.floor(Math.sqrt((tank.w * lower * 0.96) / shown))));
    const fit = (length: number): number => Math.max(1, Math.floor((length - 4) / cell));
    while (cell > 3 && fit(lower) * fit(tank.w) < shown) cell--;
    const wide = fit(tank.w);
    const per = Math.max(1, Math.ceil(room / (fit(lower) * wide)));
    const side = cell - (cell > 4 ? 1.5 : 1);
    // Places packets of a queue whose bottom is at `bottom`, from the link backwards.
    const pile = (from: number, to: number, height: number, bottom: number, place: (number: number, x: number, y: number) => void): void => {
      const high = fit(height);
      for (let number = from; number < to; number += per) {
        const slot = Math.floor(number / per);
        const column = Math.floor(slot / high);
        if (column >= wide) break;
        place(number, tank.x + tank.w - 2 - (column + 1) * cell, bottom - 2 - ((slot % high) + 1) * cell);
      }
    };
    const isLow = (i: number): boolean => row.l4s?.has(of.values[i]!) ?? false;
    const bottom = tank.y + tank.h;
    const low = inTank.filter(isLow);
    const others = low.length > 0 ? inTank.filter((i) => !isLow(i)) : inTank;
    pile(0, low.length, upper, tank.y + upper, (number, x, y) => box(of.values[low[number]!]!, x, y, side));
    pile(0, others.length, lower, bottom, (number, x, y) => box(of.values[others[number]!]!, x, y, side));
    c.fillStyle = row.flows.length === 1 ? flowColour(row.flows[0]!) : colours.muted;
    pile(others.length, others.length + unknown, lower, bottom, (_, x, y) => c.fillRect(x, y, side, side));
    const skipIn = Math.max(1, Math.ceil((entering.length * APART) / (tank.x - 18)));
    for (const i of entering) {
      if (i % skipIn !== 0) continue;
      const flow = of.values[i]!;
      const way = 1 - (arrival.values[i]! - timeS) / entryS;
      const bend = way * way;
      box(flow, 18 + way * (tank.x - 22), lane(flow) + (middle - lane(flow)) * bend - size / 2, size);
    }
    for (const [colour, list] of boxes) {
      c.fillStyle = colour;
      c.beginPath();
      for (let k = 0; k < list.length; k += 3) c.rect(list[k]!, list[k + 1]!, list[k + 2]!, list[k + 2]!);
      c.fill();
    }

    // Packets that were dropped fall out in front of the tank, as crosses. At the end none is on its way.
    const lost = recording.gone[index]!;
    const fallS = Math.min(Math.max(0.5 * speed, 0.001), 1);
    const end = lost.time_s.after(timeS);
    const first = lost.time_s.after(timeS - fallS);
    const dropped = end - lost.time_s.after(timeS - 1);
    const over = recording.done && nowS >= recording.nowS - 1e-9;
    const every = Math.max(1, Math.ceil((end - first) / MOST_DROPS));
    c.lineWidth = 2;
    for (let i = first + ((every - (first % every)) % every); i < end && !over; i += every) {
      const flow = lost.flow.values[i]!;
      if (hidden.has(flow)) continue;
      const way = (timeS - lost.time_s.values[i]!) / fallS;
      const reach = tank.x - (narrow ? 18 : 26);
      const x = tank.x - 8 - ((((i / every) * 7) % 11) / 11) * (reach - 4);
      const y = middle + way * way * (tank.h / 2 + 4);
      c.globalAlpha = 1 - 0.7 * way;
      c.strokeStyle = flowColour(flow);
      c.beginPath();
      c.moveTo(x - 4, y - 4);
      c.lineTo(x + 4, y + 4);
      c.moveTo(x + 4, y - 4);
      c.lineTo(x - 4, y + 4);
      c.stroke();
    }
    c.globalAlpha = 1;

    // The link itself, over the packets that pass it, and the words.
    c.fillStyle = colours.ink;
    c.beginPath();
    c.roundRect(server - 3, middle - (small ? 12 : 17), narrow ? 6 : 8, small ? 24 : 34, 3);
    c.fill();
    c.font = font;
    c.textBaseline = "alphabetic";
    const above = tank.y - 7;
    const below = top + height - 7;
    const links = recording.links[index]!;
    c.textAlign = "left";
    if (upper > 0) {
      c.fillStyle = colours.muted;
      c.fillText("L4S", tank.x + 5, tank.y + 14);
      c.fillText("classic", tank.x + 5, tank.y + upper + 15);
    }
    c.fillStyle = colours.ink;
    const title = this.rows.length > 1 ? (row.name.length > 16 ? `${row.name.slice(0, 15)}…` : row.name) : "Queue";
    c.fillText(`${title}: ${this.words(recording, row, index, here)}`, narrow ? 8 : tank.x, above);
    c.fillStyle = colours.muted;
    // Of a trace the mean over a while: a bin has a few opportunities or none.
    const steady = recording.at(links.capacity_mbps, timeS);
    const capacity = row.varies ? recording.mean(links.capacity_mbps, timeS - 0.5, timeS) : steady;
    const rate = Number.isFinite(capacity) ? `${capacity >= 100 ? capacity.toFixed(0) : capacity.toFixed(1).replace(/\.0$/, "")} Mbit/s` : "";
    const oneWay = Number.isFinite(delayMs) ? `${delayMs.toFixed(delayMs < 10 ? 1 : 0).replace(/\.0$/, "")} ms one way` : "";
    c.textAlign = "right";
    c.fillText([rate, narrow ? "" : oneWay].filter(Boolean).join(" · "), narrow ? this.width - 8 : wireTo, above);
    if (!narrow) {
      c.textAlign = "left";
      c.fillText(row.from === "" ? "senders" : `from ${row.from}`, 8, below);
      c.textAlign = "right";
      c.fillText(row.to === "" ? "receivers" : `to ${row.to}`, this.width - 8, below);
    }
    c.textAlign = "left";
    const atQueue = [
      dropped > 0 ? `× ${dropped} dropped in 1 s` : "",
      per > 1 ? `a square is ${per} packets` : "",
      narrow ? (dropped > 0 ? "" : row.apart.split(",")[0]!) : row.apart,
    ].filter(Boolean);
    c.fillText(atQueue.join(" · "), narrow ? 8 : tank.x, below);
    if (skip > 1) {
      // The wire on the screen shows a longer time than the link's delay.
      const flying = Number.isFinite(delayMs) ? gone - departure.after(timeS - delayMs / 1000) : NaN;
      const shows = `shows ${crossingS < 1 ? `${(crossingS * 1000).toFixed(0)} ms` : `${crossingS.toFixed(1).replace(/\.0$/, "")} s`}, 1 packet in ${skip}`;
      c.textAlign = narrow ? "right" : "left";
      const words = narrow ? `1 in ${skip} drawn` : Number.isFinite(flying) ? `${flying} on the wire; it ${shows}` : `the wire ${shows}`;
      c.fillText(words, narrow ? this.width - 8 : server, below);
    }
  }
}
