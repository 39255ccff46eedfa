// A run as the page keeps it: columns that grow while the worker simulates. The player reads them up to its own time.

export class Growing {
  values = new Float64Array(1024);
  length = 0;

  push(more: Float64Array): void {
    if (this.length + more.length > this.values.length) {
      const larger = new Float64Array(Math.max(this.values.length * 2, this.length + more.length));
      larger.set(this.values.subarray(0, this.length));
      this.values = larger;
    }
    this.values.set(more, this.length);
    this.length += more.length;
  }

  /** Returns the index of the first value above `limit`; the values rise. */
  after(limit: number, from = 0): number {
    let low = from;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.values[middle]! <= limit) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const FLOW = ["rate_mbps", "rtt_ms", "window_kb"] as const;
const LINK = ["queue_kb", "queueing_ms", "capacity_mbps", "dropped_per_s", "marked_per_s"] as const;
const PACKET = ["departure_s", "arrival_s", "serialisation_s", "flow", "bytes"] as const;
const GONE = ["time_s", "flow", "kind"] as const;

export type FlowColumn = (typeof FLOW)[number];
export type LinkColumn = (typeof LINK)[number];
export type Columns<K extends string> = Record<K, Float64Array>;

/** New rows of a run, as the worker sends them. */
export interface Update {
  nowS: number;
  done: boolean;
  packets: number;
  times: Float64Array;
  flows: Columns<FlowColumn>[];
  links: Columns<LinkColumn>[];
  /** Packets that left each link; empty arrays if packets are not recorded. */
  logs: Columns<(typeof PACKET)[number]>[];
  /** Packets that ended at each link: kind 0 by its queue, 1 at random, 2 by a policer. */
  gone: Columns<(typeof GONE)[number]>[];
}

export { FLOW, GONE, LINK, PACKET };

const growing = <K extends string>(keys: readonly K[]): Record<K, Growing> =>
  Object.fromEntries(keys.map((key) => [key, new Growing()])) as Record<K, Growing>;

function append<K extends string>(to: Record<K, Growing>, more: Columns<K>): void {
  for (const key in more) to[key].push(more[key]);
}

export class Recording {
  times = new Growing();
  flows: Record<FlowColumn, Growing>[];
  links: Record<LinkColumn, Growing>[];
  logs: Record<(typeof PACKET)[number], Growing>[];
  gone: Record<(typeof GONE)[number], Growing>[];
  nowS = 0;
  done = false;
  packets = 0;

  constructor(
    readonly flowNames: string[],
    readonly linkNames: string[],
  ) {
    this.flows = flowNames.map(() => growing(FLOW));
    this.links = linkNames.map(() => growing(LINK));
    this.logs = linkNames.map(() => growing(PACKET));
    this.gone = linkNames.map(() => growing(GONE));
  }

  append(update: Update): void {
    this.nowS = update.nowS;
    this.done = update.done;
    this.packets = update.packets;
    this.times.push(update.times);
    update.flows.forEach((more, index) => append(this.flows[index]!, more));
    update.links.forEach((more, index) => append(this.links[index]!, more));
    update.logs.forEach((more, index) => append(this.logs[index]!, more));
    update.gone.forEach((more, index) => append(this.gone[index]!, more));
  }

  /** Returns the value of a column in the last bin up to a time; NaN before the first. */
  at(column: Growing, timeS: number): number {
    const index = this.times.after(timeS) - 1;
    return index < 0 ? NaN : column.values[index]!;
  }

  /** Returns the mean of a column over the bins of (from, to]; bins without a value are left out. */
  mean(column: Growing, fromS: number, toS: number): number {
    let sum = 0;
    let count = 0;
    for (let index = this.times.after(fromS); index < this.times.length && this.times.values[index]! <= toS; index++) {
      const value = column.values[index]!;
      if (Number.isNaN(value)) continue;
      sum += value;
      count++;
    }
    return count > 0 ? sum / count : NaN;
  }
}
