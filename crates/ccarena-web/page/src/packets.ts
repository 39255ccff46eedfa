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
  delayMs(timeS: number): number;
}

/** Room of a packet on the wire, px. */
const APART = 9;
/** Shortest time in which a packet crosses the wire on the screen, s. */
const CROSSING_S = 0.9;
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
    this.height = this.rows.length > 1 ? this.rows.length * (narrow ? 84 : 96) : narrow ? 140 : 178;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
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

  private link(recording: Recording, row: Row, index: number, top: number, height: number, timeS: number, speed: number, hidden: ReadonlySet<number>): void {
    const c = this.context;
    const colours = palette();
    const log = recording.logs[index]!;
    const narrow = this.width < 560;
    const small = height < 120;
    const font = `${narrow ? 11 : 12}px system-ui, "DejaVu Sans", sans-serif`;
    const left = narrow ? 40 : 96;
    const tank = { x: left, y: top + (small ? 24 : 36), w: Math.round(this.width * (narrow ? 0.34 : 0.38)), h: height - (small ? 34 : 60) };
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
    c.fillStyle = colours.raised;
    c.beginPath();
    c.roundRect(wireFrom, middle - 8, wireTo - wireFrom, 16, 8);
    c.fill();
    const dots = Math.min(numbers, 40);
    for (let place = 0; place < dots; place++) {
      const flow = row.flows[place]!;
      c.globalAlpha = hidden.has(flow) ? 0.25 : 1;
      c.fillStyle = flowColour(flow);
      const radius = Math.max(2, Math.min(narrow ? 5 : 6, tank.h / (numbers * 2.6)));
      for (const x of [8 + radius, this.width - 8 - radius]) {
        c.beginPath();
        c.arc(x, lane(flow), radius, 0, 7);
        c.fill();
      }
    }
    c.globalAlpha = 1;

    // Who is in the queue, and who is on the wire.
    const delayS = row.delayMs(timeS) / 1000;
    const crossingS = Math.max(delayS, CROSSING_S * speed);
    const { arrival_s: arrival, departure_s: departure, flow: of } = log;
    const from = departure.after(timeS - crossingS);
    const gone = departure.after(timeS, from);
    const onWire = gone - from;
    const skip = Math.max(1, Math.ceil((onWire * APART) / (wireTo - wireFrom)));
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

    // A queue that serves flows in turns has no one order of departure; packets wait in the order of their arrival.
    const inTank: number[] = [];
    const entering: number[] = [];
    const entryS = Math.max(CROSSING_S * speed * 0.25, 0.002);
    const last = Math.min(departure.length, gone + 30000);
    let empty = 0;
    for (let i = gone; i < last && empty < 400; i++) {
      if (arrival.values[i]! <= timeS) {
        inTank.push(i);
        empty = 0;
      } else if (arrival.values[i]! <= timeS + entryS) {
        entering.push(i);
        empty = 0;
      } else empty++;
    }
    const room = this.room(recording, row, index, inTank.length);
    const shown = Math.min(room, 1400);
    let cell = Math.max(3, Math.min(small ? 11 : 15, Math.floor(Math.sqrt((tank.w * tank.h * 0.96) / shown))));
    const fit = (length: number): number => Math.max(1, Math.floor((length - 4) / cell));
    while (cell > 3 && fit(tank.h) * fit(tank.w) < shown) cell--;
    const high = fit(tank.h);
    const wide = fit(tank.w);
    const per = Math.max(1, Math.ceil(room / (high * wide)));
    const side = cell - (cell > 4 ? 1.5 : 1);
    for (let number = 0; number < inTank.length; number += per) {
      const slot = number / per;
      const column = Math.floor(slot / high);
      if (column >= wide) break;
      box(of.values[inTank[number]!]!, tank.x + tank.w - 2 - (column + 1) * cell, tank.y + tank.h - 2 - ((slot % high) + 1) * cell, side);
    }
    // Packets that have not left by the end of what is simulated are in no log; the series counts them.
    const kb = recording.at(recording.links[index]!.queue_kb, timeS);
    const each = gone > 0 ? log.bytes.values[gone - 1]! / 1000 : 1.5;
    const unknown = gone + inTank.length >= departure.length ? Math.round((kb || 0) / each) - inTank.length : 0;
    c.fillStyle = colours.edge;
    for (let number = inTank.length; number < inTank.length + unknown; number += per) {
      const slot = Math.floor(number / per);
      const column = Math.floor(slot / high);
      if (column >= wide) break;
      c.fillRect(tank.x + tank.w - 2 - (column + 1) * cell, tank.y + tank.h - 2 - ((slot % high) + 1) * cell, side, side);
    }
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

    // Packets that were dropped fall out of the tank.
    const lost = recording.gone[index]!;
    const fallS = Math.max(0.5 * speed, 0.001);
    const first = lost.time_s.after(timeS - fallS);
    const end = lost.time_s.after(timeS, first);
    const every = Math.max(1, Math.ceil((end - first) / 40));
    c.strokeStyle = colours.bad;
    c.lineWidth = 1.6;
    for (let i = first; i < end; i += every) {
      const flow = lost.flow.values[i]!;
      if (hidden.has(flow)) continue;
      const way = (timeS - lost.time_s.values[i]!) / fallS;
      const x = tank.x - 7 - ((i * 37) % 23) * way;
      const y = middle + way * way * (tank.h / 2 + 6);
      c.globalAlpha = 1 - way;
      c.fillStyle = flowColour(flow);
      c.fillRect(x - 3, y - 3, 6, 6);
      c.strokeRect(x - 3, y - 3, 6, 6);
    }
    c.globalAlpha = 1;

    // The link itself, over the packets that pass it, and the words.
    c.fillStyle = colours.ink;
    c.beginPath();
    c.roundRect(server - 3, middle - (small ? 12 : 17), narrow ? 6 : 8, small ? 24 : 34, 3);
    c.fill();
    c.font = font;
    c.textBaseline = "alphabetic";
    const above = tank.y - 8;
    const links = recording.links[index]!;
    const waitMs = recording.mean(links.queueing_ms, timeS - 0.2, timeS);
    c.fillStyle = colours.ink;
    c.textAlign = "left";
    const waiting = inTank.length + Math.max(unknown, 0);
    const queue = `${waiting} packet${waiting === 1 ? "" : "s"}${Number.isFinite(waitMs) ? ` · ${waitMs.toFixed(waitMs < 10 ? 1 : 0)} ms` : ""}`;
    c.fillText(narrow ? queue : `${this.rows.length > 1 ? `${row.name}: ` : "Queue: "}${queue}`, tank.x, above);
    c.fillStyle = colours.muted;
    // Of a trace the mean over a while: a bin has a few opportunities or none.
    const steady = recording.at(links.capacity_mbps, timeS);
    const capacity = row.varies ? recording.mean(links.capacity_mbps, timeS - 0.5, timeS) : steady;
    const rate = Number.isFinite(capacity) ? `${capacity >= 100 ? capacity.toFixed(0) : capacity.toFixed(1).replace(/\.0$/, "")} Mbit/s` : "";
    c.textAlign = "right";
    c.fillText(narrow ? rate : `${rate} · ${row.delayMs(timeS).toFixed(row.delayMs(timeS) < 10 ? 1 : 0).replace(/\.0$/, "")} ms one way`, wireTo, above);
    if (!small && !narrow) {
      c.textAlign = "left";
      c.fillText("senders", 8, top + height - 8);
      c.textAlign = "right";
      c.fillText("receivers", this.width - 8, top + height - 8);
      const notes = [skip > 1 ? `1 in ${skip} packets on the wire is drawn` : "", per > 1 ? `a square in the queue is ${per} packets` : ""].filter(Boolean);
      c.textAlign = "center";
      c.fillText(notes.join(" · "), (tank.x + wireTo) / 2, top + height - 8);
    }
  }
}
