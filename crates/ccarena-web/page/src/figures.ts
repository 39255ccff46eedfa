// Figures of a run by their names in docs/figures.md, computed as ccarena/eval/measure does: from the result, and from the
// packets of each link.

import type { Recording } from "./recording";

/** What a run returns (docs/results.md), as far as figures need it. */
export interface Result {
  duration_s: number;
  seed: number;
  flows: { name: string; scheme: string; start_s: number; stop_s: number; delivered_bytes: number; wire_bytes: number; rtt_mean_ms: number | null; fallback?: string; error?: string; retransmitted_packets: number }[];
  links: { name: string; capacity_bytes: number; delivered_bytes: number; dropped_packets: number; marked_ect0_packets: number; marked_ect1_packets: number }[];
}

export interface Figure {
  name: string;
  title: string;
  unit: string;
  digits: number;
  /** Sign of an improvement: 1 if more is better, -1 if less is, 0 if neither. */
  better: number;
}

export const FLOW_FIGURES: Figure[] = [
  { name: "throughput_mbps", title: "Throughput", unit: "Mbit/s", digits: 2, better: 1 },
  { name: "goodput_mbps", title: "Goodput", unit: "Mbit/s", digits: 2, better: 1 },
  { name: "queueing_delay_mean_ms", title: "Mean queueing delay", unit: "ms", digits: 2, better: -1 },
  { name: "queueing_delay_p95_ms", title: "p95 queueing delay", unit: "ms", digits: 2, better: -1 },
  { name: "rtt_mean_ms", title: "Mean RTT", unit: "ms", digits: 1, better: -1 },
  { name: "loss_share", title: "Loss", unit: "%", digits: 3, better: -1 },
];
export const RUN_FIGURES: Figure[] = [
  { name: "jain_goodput", title: "Jain's index of goodput", unit: "", digits: 4, better: 1 },
];
export const LINK_FIGURES: Figure[] = [
  { name: "utilisation", title: "Utilisation", unit: "%", digits: 1, better: 1 },
  { name: "dropped_packets", title: "Dropped", unit: "packets", digits: 0, better: -1 },
];

export type Row = Record<string, number>;
export interface Figures {
  flows: Row[];
  links: Row[];
  run: Row;
}

/** Returns the element at index floor(q n) of sorted values, as mahimahi does. */
function percentile(sorted: Float64Array, q: number): number {
  if (sorted.length === 0) return NaN;
  return sorted[Math.min(Math.floor(q * sorted.length), sorted.length - 1)]!;
}

/** Exponents of utilisation and of the delay's part in each normalised power. */
const POWERS = { score: [1, 1], score_throughput: [1, 0.25], score_delay: [0.25, 1] } as const;

/** Returns the figures of a finished run. `paths` are the numbers of each flow's links, in order; scores need `baseRttsMs`. */
export function figures(result: Result, recording: Recording, paths: number[][], baseRttsMs: number[] = []): Figures {
  const logged = recording.logs.some((log) => log.departure_s.length > 0);
  const flows = result.flows.map((flow, index): Row => {
    const seconds = flow.stop_s - flow.start_s;
    const row: Row = {
      goodput_mbps: (flow.delivered_bytes * 8e-6) / seconds,
      received_mbps: (flow.wire_bytes * 8e-6) / seconds,
      rtt_mean_ms: flow.rtt_mean_ms ?? NaN,
    };
    if (!logged) return row;
    const path = paths[index]!;
    const narrowest = path.reduce((least, link) => (result.links[link]!.capacity_bytes < result.links[least]!.capacity_bytes ? link : least), path[0]!);
    const log = recording.logs[narrowest]!;
    let bytes = 0;
    let sum = 0;
    let count = 0;
    const delays = new Float64Array(log.flow.length);
    const of = log.flow.values;
    for (let i = 0; i < log.flow.length; i++) {
      if (of[i] !== index) continue;
      const departure = log.departure_s.values[i]!;
      if (departure > flow.start_s && departure <= flow.stop_s) bytes += log.bytes.values[i]!;
      const delay = (departure - log.arrival_s.values[i]! - log.serialisation_s.values[i]!) * 1000;
      delays[count++] = delay;
      sum += delay;
    }
    row["throughput_mbps"] = (bytes * 8e-6) / seconds;
    row["queueing_delay_mean_ms"] = count > 0 ? sum / count : NaN;
    const sorted = delays.subarray(0, count).sort();
    for (const percent of [50, 95, 99]) row[`queueing_delay_p${percent}_ms`] = percentile(sorted, percent / 100);
    // Capacity is counted over the whole run.
    const capacity = result.links[narrowest]!.capacity_bytes;
    if (flow.start_s === 0 && flow.stop_s === result.duration_s && capacity > 0) {
      let departed = 0;
      for (let i = 0; i < log.bytes.length; i++) departed += log.bytes.values[i]!;
      row["capacity_mbps"] = (capacity * 8e-6) / seconds;
      row["utilisation"] = departed / capacity;
      const base = baseRttsMs[index];
      for (const [name, [throughput, delay]] of base === undefined ? [] : Object.entries(POWERS)) {
        row[name] = count > 0 ? row["utilisation"] ** throughput * (base! / (base! + sum / count)) ** delay : 0;
      }
    }
    let lost = 0;
    let dropped = 0;
    for (const link of path) {
      const gone = recording.gone[link]!;
      for (let i = 0; i < gone.flow.length; i++) if (gone.flow.values[i] === index) {
        lost++;
        if (gone.kind.values[i] === 0) dropped++;
      }
    }
    const last = recording.logs[path[path.length - 1]!]!;
    let arrived = 0;
    for (let i = 0; i < last.flow.length; i++) if (last.flow.values[i] === index) arrived++;
    row["loss_share"] = lost + arrived > 0 ? (lost / (lost + arrived)) * 100 : 0;
    row["queue_drop_share"] = lost + arrived > 0 ? dropped / (lost + arrived) : 0;
    return row;
  });
  const links = result.links.map((link): Row => ({
    utilisation: link.capacity_bytes > 0 ? (link.delivered_bytes / link.capacity_bytes) * 100 : NaN,
    dropped_packets: link.dropped_packets,
    marked_packets: link.marked_ect0_packets + link.marked_ect1_packets,
  }));
  const goodputs = flows.map((row) => row["goodput_mbps"]!);
  const total = goodputs.reduce((sum, x) => sum + x, 0);
  const squares = goodputs.reduce((sum, x) => sum + x * x, 0);
  return { flows, links, run: { jain_goodput: goodputs.length > 1 && squares > 0 ? (total * total) / (goodputs.length * squares) : NaN } };
}

export function shown(value: number | undefined, digits: number): string {
  if (value === undefined || !Number.isFinite(value)) return "–";
  return value.toFixed(digits);
}

// Quantiles 0.975 of Student's t distribution for 1 to 31 degrees of freedom (Abramowitz and Stegun, table 26.10).
const T = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093,
  2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042, 2.04,
];

/** Returns the mean and half of its 95 % interval (Student's t). */
export function interval(values: number[]): { mean: number; half: number } {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  if (values.length < 2) return { mean, half: NaN };
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (values.length - 1);
  return { mean, half: (T[Math.min(values.length - 2, T.length - 1)]! * Math.sqrt(variance)) / Math.sqrt(values.length) };
}
