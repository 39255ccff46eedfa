// The scenario document (docs/scenario.md) as the page edits it, and the forms in which a reader takes it along.
//
// The page knows only the keys that it has a control for. It leaves every other key as it is, so that a scenario that was
// opened from a file comes out as it went in. The engine alone says what is right: nothing here checks a value.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json | undefined };
export type Mapping = { [key: string]: Json | undefined };

export interface Scenario extends Mapping {
  duration_s?: number;
  seed?: number;
  links: Link[];
  flows: Flow[];
}
export interface Link extends Mapping {
  name?: string;
  service?: Mapping;
  queue?: Mapping;
}
export interface Flow extends Mapping {
  name?: string;
  scheme: Json;
  count?: number;
  params?: Mapping;
}

export const DURATION_S = 30;

export const isMapping = (value: unknown): value is Mapping =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Most values of a scenario: the form, the text and the engine stay quick. */
const MOST_VALUES = 20_000;
const MOST_DEPTH = 40;

/** Returns why a document is too large for the page, if it is. */
function tooLarge(value: unknown): string | null {
  let values = 0;
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_DEPTH) return `scenario: lists and mappings lie more than ${MOST_DEPTH} deep in each other; expected fewer`;
    const next: unknown[] = [];
    for (const inner of level) {
      if (typeof inner !== "object" || inner === null) continue;
      for (const one of Object.values(inner)) {
        if (++values > MOST_VALUES) return `scenario: it has more than ${MOST_VALUES} values, and this page takes no more; run it with the command: ccarena eval --scenario FILE`;
        next.push(one);
      }
    }
    level = next;
  }
  return null;
}

/** Returns the document if it has the outline of a scenario, else a sentence that says what is missing and where. */
export function outline(value: unknown): Scenario | string {
  const fault = tooLarge(value);
  if (fault !== null) return fault;
  if (!isMapping(value)) return "scenario: expected a mapping with `links` and `flows`";
  for (const key of ["links", "flows"]) {
    const list = value[key];
    if (!Array.isArray(list) || list.length === 0) return `${key}: expected a list with at least one entry`;
    const odd = list.findIndex((entry) => !isMapping(entry));
    if (odd >= 0) return `${key}[${odd}]: expected a mapping`;
  }
  return value as Scenario;
}

/** Returns the names of the files that a scenario needs: traces, tables of conditions and policies. */
export function filesOf(scenario: Scenario): string[] {
  const found = new Set<string>();
  const visit = (value: Json | undefined): void => {
    if (Array.isArray(value)) value.forEach(visit);
    else if (isMapping(value)) {
      if (typeof value["file"] === "string") found.add(value["file"]);
      Object.values(value).forEach(visit);
    }
  };
  scenario.links.forEach(visit);
  for (const { policy } of scenario.flows) if (typeof policy === "string" && policy !== "none") found.add(policy);
  return [...found];
}

export const copy = <T>(value: T): T => structuredClone(value);

export const nameOf = (flow: Flow, index: number): string => (flow.name ? String(flow.name) : `flow${index}`);
export const linkName = (link: Link, index: number): string => (link.name ? String(link.name) : `link${index}`);

/** Returns the value of a setting that may change over time, at a time. `field` is the key of its steps. */
export function at(value: Json | undefined, field: string, timeS: number, otherwise: number): number {
  if (typeof value === "number") return value;
  if (!isMapping(value)) return otherwise;
  const steps = value["steps"];
  if (Array.isArray(steps)) {
    let now = otherwise;
    for (const step of steps) {
      if (isMapping(step) && Number(step["at_s"]) <= timeS) now = Number(step[field]);
    }
    return now;
  }
  const plain = value[field] ?? value["probability"];
  return typeof plain === "number" ? plain : otherwise;
}

/** Returns the steps with a new one at a time; a step within `apartS` before it is replaced, and later ones are dropped. */
function stepped(steps: Json[], field: string, timeS: number, value: number, apartS: number): Json[] {
  const kept = steps.filter((step, index) => {
    const when = isMapping(step) ? Number(step["at_s"]) : 0;
    return index === 0 || (when < timeS - apartS && when < timeS);
  });
  const first = kept[0];
  if (timeS <= 0 && isMapping(first)) return [{ ...first, [field]: value }];
  return [...kept, { at_s: timeS, [field]: value }];
}

const rounded = (timeS: number): number => Math.round(timeS * 1000) / 1000;

/** A setting that a slider can move while the scenario runs: the scenario gets a step at the time of the move. */
export interface Turnable {
  id: string;
  label: string;
  unit: string;
  min: number;
  max: number;
  /** Logarithmic sliders give small and large values the same room. */
  log: boolean;
  step: number;
  at(timeS: number): number;
  set(scenario: Scenario, timeS: number, value: number, apartS: number): void;
}

/** Groups links that have the same setting: one slider turns them together, so that a comparison stays fair. */
function alike(scenario: Scenario, key: string): { links: number[]; of: string }[] {
  const all = scenario.links.map((link, index) => ({ index, text: JSON.stringify(link[key]) }));
  if (scenario.links.length > 1 && all.every((one) => one.text === all[0]!.text)) return [{ links: all.map((one) => one.index), of: " of all links" }];
  return all.map(({ index }) => ({ links: [index], of: scenario.links.length > 1 ? ` of ${linkName(scenario.links[index]!, index)}` : "" }));
}

/** Returns what can be turned in a scenario while it runs. What the document cannot change over time has no slider. */
export function turnables(scenario: Scenario): Turnable[] {
  const found: Turnable[] = [];
  // Steps of a setting: `key` of the link has them, `field` of each is the value.
  const stepsOf = (now: Json | undefined, field: string, first: Json): Json[] => (isMapping(now) && Array.isArray(now["steps"]) ? now["steps"] : [{ at_s: 0, [field]: first }]);
  for (const { links, of } of alike(scenario, "service")) {
    const service = scenario.links[links[0]!]!.service ?? {};
    const kind = service["type"];
    if (kind !== "constant" && kind !== "steps") continue;
    found.push({
      id: `rate-${links[0]}`, label: `Rate${of}`, unit: "Mbit/s", min: 0.5, max: Math.max(100, nice(Math.max(...rates(service), 1) * 2)), log: true, step: 0.1,
      at: (t) => at(kind === "constant" ? service["rate_mbps"] : service, "rate_mbps", t, 10),
      set: (s, t, value, apart) => {
        for (const l of links) {
          const own = s.links[l]!;
          fixLimit(s, l);
          own.service = { type: "steps", steps: stepped(stepsOf(own.service, "rate_mbps", own.service?.["rate_mbps"] ?? 10), "rate_mbps", rounded(t), value, apart) };
        }
      },
    });
  }
  const measured = scenario.links.some((link) => isMapping(link["conditions"]));
  for (const { links, of } of measured ? [] : alike(scenario, "delay_ms")) {
    const delay = scenario.links[links[0]!]!["delay_ms"];
    found.push({
      id: `delay-${links[0]}`, label: `One-way delay${of}`, unit: "ms", min: 1, max: 200, log: true, step: 1,
      at: (t) => at(delay, "delay_ms", t, 10),
      set: (s, t, value, apart) => {
        for (const l of links) fixLimit(s, l);
        fixBaseRtt(s);
        for (const l of links) {
          const own = s.links[l]!;
          const now = own["delay_ms"];
          own["delay_ms"] = { ...(isMapping(now) ? now : {}), steps: stepped(stepsOf(now, "delay_ms", typeof now === "number" ? now : 10), "delay_ms", rounded(t), value, apart) };
        }
      },
    });
  }
  for (const { links, of } of measured ? [] : alike(scenario, "loss")) {
    const loss = scenario.links[links[0]!]!["loss"];
    if (isMapping(loss) && !["steps", "independent"].includes(String(loss["type"]))) continue;
    found.push({
      id: `loss-${links[0]}`, label: `Random loss${of}`, unit: "%", min: 0, max: 10, log: false, step: 0.05,
      at: (t) => at(loss, "loss", t, 0) * 100,
      set: (s, t, value, apart) => {
        for (const l of links) {
          const own = s.links[l]!;
          own["loss"] = { type: "steps", steps: stepped(stepsOf(own["loss"], "loss", at(own["loss"], "loss", 0, 0)), "loss", rounded(t), Math.round(value * 1e4) / 1e6, apart) };
        }
      },
    });
  }
  scenario.flows.forEach((flow, f) => {
    if (found.length > 12) return;
    const changes = Array.isArray(flow["changes"]) ? flow["changes"].filter(isMapping) : [];
    if (typeof flow["weight"] === "number") {
      found.push({
        id: `weight-${f}`, label: `Weight of ${nameOf(flow, f)}`, unit: "", min: 0.6, max: 10, log: true, step: 0.1,
        at: (t) => changes.reduce((now, change) => (Number(change["at_s"]) <= t && typeof change["weight"] === "number" ? change["weight"] : now), flow["weight"] as number),
        set: (s, t, value) => change(s.flows[f]!, rounded(t), { weight: value }),
      });
    }
    const requirement = flow["requirement"];
    if (isMapping(requirement)) {
      const span = Number(requirement["max_mbps"]) / Number(requirement["min_mbps"]);
      found.push({
        id: `requirement-${f}`, label: `Required by ${nameOf(flow, f)}`, unit: "Mbit/s", min: 0.5, max: 100, log: true, step: 0.1,
        at: (t) => changes.reduce((now, change) => {
          const later = change["requirement"];
          return Number(change["at_s"]) <= t && isMapping(later) ? Number(later["min_mbps"]) : now;
        }, Number(requirement["min_mbps"])),
        set: (s, t, value) => change(s.flows[f]!, rounded(t), {
          requirement: { min_mbps: value, max_mbps: Math.round(value * (span > 1 ? span : 1.5) * 1000) / 1000 },
        }),
      });
    }
  });
  return found;
}

function change(flow: Flow, timeS: number, values: Mapping): void {
  if (timeS <= 0) {
    Object.assign(flow, values);
    return;
  }
  const earlier = (Array.isArray(flow["changes"]) ? flow["changes"].filter(isMapping) : []).filter((one) => Number(one["at_s"]) < timeS);
  flow["changes"] = [...earlier, { at_s: timeS, ...values }];
}

export function rates(service: Mapping): number[] {
  if (typeof service["rate_mbps"] === "number") return [service["rate_mbps"]];
  const steps = service["steps"];
  if (Array.isArray(steps)) return steps.filter(isMapping).map((step) => Number(step["rate_mbps"]));
  return typeof service["max_mbps"] === "number" ? [service["max_mbps"]] : [];
}

export function nice(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((candidate) => candidate >= value * 0.999) ?? value;
}

/** Returns the least two-way delay of a flow that has no base RTT of its own. */
function baseRtt(scenario: Scenario, flow: Flow): number {
  const path = Array.isArray(flow["path"]) ? flow["path"] : null;
  const delays = scenario.links.filter((link, index) => path === null || path.includes(linkName(link, index))).map((link) => {
    const delay = link["delay_ms"];
    if (isMapping(delay) && Array.isArray(delay["steps"])) return Math.min(...delay["steps"].filter(isMapping).map((step) => Number(step["delay_ms"])));
    return typeof delay === "number" ? delay : 10;
  });
  return 2 * delays.reduce((sum, delay) => sum + delay, 0);
}

// A limit in BDPs follows the mean of all steps, so that a later step would change the past. It becomes bytes first.
function fixLimit(scenario: Scenario, index: number): void {
  const link = scenario.links[index]!;
  const queue = link.queue ?? { type: "droptail", bdp: 1 };
  if (typeof queue["bdp"] !== "number") return;
  const rate = rates(link.service ?? {})[0] ?? 10;
  const rtt = Math.max(...scenario.flows.map((flow) => (typeof flow["base_rtt_ms"] === "number" ? flow["base_rtt_ms"] : baseRtt(scenario, flow))));
  const { bdp, ...others } = queue;
  link.queue = { ...others, bytes: Math.max(3000, Math.round(((bdp as number) * rate * rtt * 1000) / 8)) };
}

// So does the base RTT: it follows the least delay of all steps.
function fixBaseRtt(scenario: Scenario): void {
  for (const flow of scenario.flows) {
    if (typeof flow["base_rtt_ms"] === "number" || flow["return_path"] !== undefined) continue;
    flow["base_rtt_ms"] = baseRtt(scenario, flow);
  }
}

// ---- Forms to take along ----

// Keys in the order of docs/scenario.md; others follow as they are.
const ORDER = [
  "version", "type", "name", "at_s", "duration_s", "seed", "scheme", "policy", "service", "conditions", "file", "model", "preset", "rate_mbps", "queue", "packets", "delay_ms",
  "jitter_ms", "loss", "router", "links", "flows", "record", "weight", "requirement", "params", "path", "return_path", "start_s", "stop_s", "app", "count",
];
const PLACE = new Map(ORDER.map((key, place) => [key, place]));

/** Returns the document with its keys in the order in which people write them. */
export function ordered<T extends Json>(value: T): T {
  if (Array.isArray(value)) return value.map(ordered) as T;
  if (!isMapping(value)) return value;
  const entries = Object.entries(value).filter((entry): entry is [string, Json] => entry[1] !== undefined);
  const place = (key: string): number => PLACE.get(key) ?? ORDER.length;
  entries.sort((a, b) => place(a[0]) - place(b[0]));
  return Object.fromEntries(entries.map(([key, inner]) => [key, ordered(inner)])) as T;
}

const PLAIN = /^[A-Za-z_][A-Za-z0-9_. /+-]*$/;
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"]);

function scalar(value: Json): string {
  if (typeof value !== "string") return JSON.stringify(value);
  // What a YAML reader could take for something else is quoted; a JSON string is a YAML string.
  return PLAIN.test(value) && !value.endsWith(" ") && !WORDS.has(value.toLowerCase()) ? value : JSON.stringify(value);
}

function flowStyle(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(flowStyle).join(", ")}]`;
  if (isMapping(value)) {
    const parts = Object.entries(value).filter(([, inner]) => inner !== undefined);
    return `{${parts.map(([key, inner]) => `${scalar(key)}: ${flowStyle(inner!)}`).join(", ")}}`;
  }
  return scalar(value);
}

const WIDTH = 100;

function block(value: Json, indent: string): string[] {
  if (!isMapping(value)) return [flowStyle(value)];
  const lines: string[] = [];
  for (const [key, inner] of Object.entries(value)) {
    if (inner === undefined) continue;
    const short = flowStyle(inner);
    if ((!isMapping(inner) && !Array.isArray(inner)) || (indent !== "" && indent.length + key.length + short.length < WIDTH)) {
      lines.push(`${scalar(key)}: ${short}`);
    } else if (Array.isArray(inner)) {
      lines.push(`${scalar(key)}:`);
      for (const entry of inner) {
        const whole = flowStyle(entry);
        const rows = indent.length + whole.length + 4 < WIDTH || !isMapping(entry) ? [whole] : block(entry, `${indent}    `);
        rows.forEach((row, number) => lines.push(`  ${number === 0 ? "- " : "  "}${row}`));
      }
    } else {
      lines.push(`${scalar(key)}:`);
      lines.push(...block(inner, `${indent}  `).map((row) => `  ${row}`));
    }
  }
  return lines;
}

/** Returns the scenario as YAML in the style of docs/scenario.md. */
export const yaml = (scenario: Scenario): string => `${block(ordered(scenario as Json), "").join("\n")}\n`;

function pythonic(value: Json, indent: string): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inside = `${indent}    `;
  const parts = Array.isArray(value)
    ? value.map((inner) => pythonic(inner, inside))
    : Object.entries(value).filter(([, inner]) => inner !== undefined).map(([key, inner]) => `${JSON.stringify(key)}: ${pythonic(inner!, inside)}`);
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const line = `${open}${parts.join(", ")}${close}`;
  if (indent.length + line.length < WIDTH && !line.includes("\n")) return line;
  return `${open}\n${parts.map((part) => `${inside}${part},\n`).join("")}${indent}${close}`;
}

/** Returns a Python program that runs the scenario. */
export const python = (scenario: Scenario): string =>
  `import ccarena\n\nscenario = ${pythonic(ordered(scenario as Json), "")}\nresults = ccarena.run(scenario)\nprint(results.flows()[["flow", "goodput_mbps", "queueing_delay_p95_ms", "loss_share"]])\n`;

/** Returns the shell lines that run the scenario and print the digest of its result. */
export const command = (scenario: Scenario): string =>
  `cat > scenario.yaml <<'EOF'\n${yaml(scenario)}EOF\nccarena eval --scenario scenario.yaml --digest\n`;

// ---- The address ----

async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) throw new Error(`it unpacks to more than ${most / 1e6} MB`);
    parts.push(value);
  }
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}

/** Largest scenario that a file may hold, or an address, unpacked. */
export const MOST_BYTES = 2e6;

/** Returns a scenario as text for an address: JSON, deflated, in base64 for addresses (RFC 4648, section 5). */
export async function packed(scenario: Scenario): Promise<string> {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(scenario)), new CompressionStream("deflate-raw"), 1e9);
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Returns what `packed` packed. Throws an error with what was wrong. */
export async function unpacked(text: string): Promise<unknown> {
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  } catch {
    throw new Error("it is not base64 for addresses");
  }
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(await through(bytes, new DecompressionStream("deflate-raw"), MOST_BYTES)));
  } catch (error) {
    throw new Error(error instanceof Error && error.message.startsWith("it ") ? error.message : "it is cut off or was changed");
  }
}
