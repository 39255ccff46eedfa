// The form of a scenario. Each control reads and writes one key of the document; an empty one takes the key out, so that the
// engine's default holds. Keys without a control stay as they are.

import { flowColour } from "./palette";
import type { Param, Registry } from "./registry";
import { copy, isMapping, type Flow, type Json, type Link, linkName, type Mapping, nameOf, type Scenario } from "./scenario";

export interface Library {
  /** Names of loaded traces and conditions traces. */
  traces(): string[];
  /** Names of policies, loaded ones and shipped ones, for a scheme. */
  policies(scheme: string): string[];
  open(): void;
}

type Child = HTMLElement | string;

function element<K extends keyof HTMLElementTagNameMap>(tag: K, about: Record<string, string> = {}, children: Child[] = []): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(about)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

let numbers = 0;

function field(label: string, control: HTMLElement, about: { whole?: boolean; help?: string } = {}): HTMLElement {
  const id = `f${++numbers}`;
  control.id = id;
  const made = element("div", { class: about.whole ? "field whole" : "field" }, [element("label", { for: id }, [label]), control]);
  if (about.help) made.title = about.help;
  return made;
}

/** Values first in forms for fields that an application requires. */
const BEGINNINGS: Record<string, Json> = {
  rate_mbps: 5, on_s: 2, off_s: 2, sizes_bytes: [100000], gap_s: 0.5, sizes: "web_search", think_s: 0.2, load: 0.5, flows: 8, size_bytes: 50000,
};
/** Fields of an application that a new one begins with. */
const REQUIRED: Record<string, string[]> = {
  cbr: ["rate_mbps"], onoff: ["rate_mbps", "on_s", "off_s"], capped: ["rate_mbps"], transfers: ["sizes_bytes", "gap_s"],
  request_response: ["sizes", "think_s"], poisson: ["sizes", "load"], incast: ["flows", "size_bytes"],
};

export class Composer {
  private scenario: Scenario = { links: [], flows: [] };
  private openParts = new Set<string>();

  constructor(private readonly place: HTMLElement, private readonly registry: Registry, private readonly library: Library, private readonly changed: () => void) {}

  show(scenario: Scenario): void {
    this.scenario = scenario;
    const focused = document.activeElement?.getAttribute("data-key");
    this.place.replaceChildren(
      ...scenario.links.map((link, index) => this.link(link, index)),
      ...scenario.flows.map((flow, index) => this.flow(flow, index)),
      this.whole(),
    );
    if (focused) this.place.querySelector<HTMLElement>(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  /** Shows the form again, since what it asks for has changed. */
  private reshape(): void {
    this.show(this.scenario);
    this.changed();
  }

  // ---- Controls ----

  private number(of: Mapping, key: string, otherwise: string, about: { min?: number; max?: number; scale?: number } = {}): HTMLInputElement {
    const scale = about.scale ?? 1;
    const value = of[key];
    // A field of the type "number" drops what it cannot read, "7,5" among it, and does not say so.
    const input = element("input", { type: "text", placeholder: otherwise, inputmode: "decimal", autocomplete: "off", spellcheck: "false" });
    if (typeof value === "number") input.value = String(Math.round(value * scale * 1e9) / 1e9);
    input.addEventListener("change", () => {
      const text = input.value.trim();
      if (text === "") delete of[key];
      else {
        const read = numberOf(text);
        if (!said(input, typeof read === "string" ? read : outside(read, about.min, about.max))) return;
        of[key] = Math.round(((read as number) / scale) * 1e12) / 1e12;
      }
      said(input, "");
      this.changed();
    });
    return input;
  }

  /** Text; `read` makes a value of it. */
  private text(of: Mapping, key: string, otherwise: string, read: (text: string) => Json = plain): HTMLInputElement {
    const input = element("input", { type: "text", placeholder: otherwise, spellcheck: "false", autocomplete: "off" });
    const value = of[key];
    if (value !== undefined && value !== null) input.value = typeof value === "string" ? value : JSON.stringify(value);
    input.addEventListener("change", () => {
      const text = input.value.trim();
      if (text === "") delete of[key];
      else of[key] = read(text);
      this.changed();
    });
    return input;
  }

  private select(options: (string | [value: string, label: string])[], value: string, choose: (value: string) => void, groups?: Map<string, string>): HTMLSelectElement {
    const input = element("select");
    let group: HTMLElement = input;
    let now: string | undefined;
    for (const option of options) {
      const [name, label] = typeof option === "string" ? [option, option] : option;
      const of = groups?.get(name);
      if (of !== now) group = of === undefined ? input : input.appendChild(element("optgroup", { label: of }));
      now = of;
      group.append(element("option", { value: name }, [label]));
    }
    if (!options.some((option) => (typeof option === "string" ? option : option[0]) === value)) input.append(element("option", { value }, [value]));
    input.value = value;
    input.addEventListener("change", () => choose(input.value));
    return input;
  }

  private check(label: string, of: Mapping, key: string): HTMLElement {
    const input = element("input", { type: "checkbox" });
    input.checked = of[key] === true;
    input.addEventListener("change", () => {
      if (input.checked) of[key] = true;
      else delete of[key];
      this.changed();
    });
    return element("label", { class: "field check" }, [input, label]);
  }

  /** Number, or steps of it as `0: 24, 10: 6`. */
  private stepped(link: Mapping, key: string, name: string, otherwise: string, scale = 1): HTMLInputElement {
    const value = link[key];
    const steps = isMapping(value) && Array.isArray(value["steps"]) ? value["steps"].filter(isMapping) : null;
    if (!steps && isMapping(value)) return this.text(link, key, otherwise);
    const input = element("input", { type: "text", inputmode: "decimal", placeholder: otherwise, autocomplete: "off" });
    const tidy = (x: Json | undefined): number => Math.round(Number(x) * scale * 1e6) / 1e6;
    input.value = steps ? steps.map((step) => `${step["at_s"]}: ${tidy(step[name])}`).join(", ") : typeof value === "number" ? String(tidy(value)) : "";
    input.title = "a number, or a number from each time on: 0: 24, 10: 6";
    input.addEventListener("change", () => {
      const text = input.value.trim();
      if (text === "") delete link[key];
      else {
        const read = text.includes(":") ? stepsOf(text, name, scale) : numberOf(text);
        if (!said(input, typeof read === "string" ? read : "")) return;
        const others = isMapping(value) ? value : key === "loss" ? { type: "steps" } : {};
        link[key] = typeof read === "number" ? Math.round((read / scale) * 1e12) / 1e12 : { ...others, steps: read };
      }
      said(input, "");
      this.changed();
    });
    return input;
  }

  private params(params: Param[], of: Mapping): HTMLElement[] {
    return params.map((param) => {
      const otherwise = String(Math.round(param.default * 1e6) / 1e6);
      const label = `${param.name}${param.unit ? ` (${param.unit})` : ""}`;
      return field(label, this.number(of, param.name, otherwise, { min: param.min, max: param.max }), { help: `${param.doc}; ${param.min} to ${param.max}, default ${otherwise}` });
    });
  }

  private more(key: string, title: string, fields: HTMLElement[]): HTMLElement {
    const made = element("details", { class: "more" }, [element("summary", {}, [title]), element("div", { class: "fields" }, fields)]);
    made.open = this.openParts.has(key);
    made.addEventListener("toggle", () => (made.open ? this.openParts.add(key) : this.openParts.delete(key)));
    return made;
  }

  private remove(list: unknown[], index: number, what: string): HTMLElement[] {
    if (list.length < 2) return [];
    const button = element("button", { type: "button", "aria-label": `remove ${what}` }, ["Remove"]);
    button.addEventListener("click", () => {
      // The others keep the names that they have by their places, or one could get a name that another was given.
      naming(this.scenario);
      list.splice(index, 1);
      this.reshape();
    });
    return [button];
  }

  // ---- Parts ----

  private link(link: Link, index: number): HTMLElement {
    const { registry } = this;
    const name = linkName(link, index);
    const service = (link.service ??= isMapping(link["conditions"]) ? { type: "conditions" } : { type: "constant", rate_mbps: 24 });
    const kind = String(service["type"]);
    const kinds: [string, string][] = [
      ["constant", "constant rate"], ["steps", "steps"], ["random_steps", "random steps"], ["cellular", "synthetic cellular trace"],
      ["trace", "trace of your own"], ["conditions", isMapping(link["conditions"]) && link["conditions"]["file"] !== undefined ? "conditions file" : "link model"], ...registry.accesses.map((access): [string, string] => [access.name, access.name === "wifi" ? "Wi-Fi" : access.name]),
    ];
    const fields: HTMLElement[] = [
      field("Capacity", this.select(kinds, kind, (chosen) => {
        const rate = typeof service["rate_mbps"] === "number" ? service["rate_mbps"] : 24;
        delete link["conditions"];
        link.service = ({
          steps: { type: "steps", steps: [{ at_s: 0, rate_mbps: rate }, { at_s: 10, rate_mbps: rate / 2 }] },
          random_steps: { type: "random_steps", min_mbps: 6, max_mbps: 24, period_s: 2 },
          cellular: { type: "cellular", preset: registry.cellular[0]!.name },
          trace: { type: "trace", file: this.library.traces()[0] ?? "my.trace" },
        } as Record<string, Mapping>)[chosen] ?? { type: chosen, rate_mbps: rate };
        if (chosen === "conditions") {
          delete link.service;
          delete link["delay_ms"];
          delete link["loss"];
          link["conditions"] = { model: registry.models[0]!.name };
          link.queue ??= { type: "droptail", packets: 300 };
        }
        if (chosen === "trace" && this.library.traces().length === 0) this.library.open();
        this.reshape();
      }), { whole: true }),
    ];
    if (kind === "steps") fields.push(field("Rate from each time on (s: Mbit/s)", this.stepped({ service } as Mapping, "service", "rate_mbps", "0: 24"), { whole: true }));
    else if (kind === "random_steps") fields.push(field("Lowest rate (Mbit/s)", this.number(service, "min_mbps", "")), field("Highest rate (Mbit/s)", this.number(service, "max_mbps", "")), field("Period (s)", this.number(service, "period_s", "")));
    else if (kind === "cellular") {
      fields.push(field("Preset", this.select(registry.cellular.map((preset): [string, string] => [preset.name, `${preset.name}, ${preset.mean_mbps} Mbit/s`]), String(service["preset"]), (chosen) => {
        service["preset"] = chosen;
        this.changed();
      }), { whole: true }), field("Seed", this.number(service, "seed", "the run's", { min: 0 })));
    } else if (kind === "trace") {
      fields.push(field("File", this.select(this.library.traces(), String(service["file"]), (chosen) => {
        service["file"] = chosen;
        this.changed();
      }), { whole: true }));
    } else if (kind === "conditions") {
      const conditions = link["conditions"] as Mapping;
      if (conditions["file"] === undefined) {
        fields.push(field("Model", this.select(registry.models.map((model) => model.name), String(conditions["model"]), (chosen) => {
          conditions["model"] = chosen;
          this.changed();
        }), { whole: true }), field("Mean (Mbit/s)", this.number(conditions, "mean_mbps", "as drawn")), field("Seed", this.number(conditions, "seed", "1")));
      } else fields.push(field("File", this.text(conditions, "file", ""), { whole: true }));
    } else fields.push(field("Rate (Mbit/s)", this.number(service, "rate_mbps", "", { min: 0.001 })));
    const access = registry.accesses.find((entry) => entry.name === kind);

    const measured = isMapping(link["conditions"]);
    if (!measured) fields.push(field("One-way delay (ms)", this.stepped(link, "delay_ms", "delay_ms", "10")));
    if (!measured) fields.push(field("Random loss (%)", this.stepped(link, "loss", "loss", "0", 100)));
    fields.push(field("Jitter (ms)", this.number(link, "jitter_ms", "0", { min: 0 })));

    const queue = (link.queue ??= { type: "droptail", bdp: 1 });
    const discipline = registry.queues.find((entry) => entry.name === queue["type"]);
    const units = ["packets", "bytes", "bdp"];
    const unit = units.find((name) => queue[name] !== undefined) ?? "packets";
    const limits = discipline?.limit;
    const otherwise = isMapping(limits) ? String(limits[unit] ?? "default") : "";
    const parts: HTMLElement[] = [
      field("Queue", this.select(registry.queues.map((entry): [string, string] => [entry.name, entry.name]), String(queue["type"]), (chosen) => {
        const next = registry.queues.find((entry) => entry.name === chosen)!;
        const kept = next.limit === null ? {} : Object.fromEntries(units.filter((name) => queue[name] !== undefined).map((name) => [name, queue[name]]));
        link.queue = { type: chosen, ...(next.limit === "required" && Object.keys(kept).length === 0 ? { packets: 100 } : kept) };
        this.reshape();
      }), discipline ? { help: discipline.summary } : {}),
    ];
    if (limits !== null) {
      const value = this.number(queue, unit, otherwise, { min: 0 });
      value.setAttribute("aria-label", "limit of the queue");
      const which = this.select(["packets", "bytes", "bdp"], unit, (chosen) => {
        const given = queue[unit];
        delete queue[unit];
        if (typeof given === "number") queue[chosen] = chosen === "bdp" ? 1 : chosen === "bytes" ? (unit === "packets" ? given * 1500 : 150000) : unit === "bytes" ? Math.max(1, Math.round(given / 1500)) : 100;
        this.reshape();
      });
      which.setAttribute("aria-label", "unit of the limit");
      parts.push(field("Queue limit", element("div", { class: "with" }, [value, which]), { whole: true }));
    }
    const routers: [string, string][] = [["", "none"], ...registry.routers.map((entry): [string, string] => [entry.name, entry.name])];
    const router = link["router"];
    const named = router === true ? "any" : typeof router === "string" ? router : isMapping(router) ? String(router["type"] ?? "acct") : "";
    const routing = field("Router", this.select(routers, named, (chosen) => {
      if (chosen === "") delete link["router"];
      else link["router"] = chosen;
      this.reshape();
    }));
    const about = registry.routers.find((entry) => entry.name === named);
    const settings: HTMLElement[] = [];
    if (about && about.params.length > 0) {
      const own: Mapping = isMapping(router) ? router : { type: named };
      // A router stays a word until one of its parameters is set.
      settings.push(...this.params(about.params, new Proxy(own, { set: (target, key, value) => ((target[key as string] = value as Json), (link["router"] = target), true) })));
    }
    return element("fieldset", {}, [
      element("legend", {}, [element("span", { class: "name" }, [this.scenario.links.length > 1 ? `Link ${name}` : "Link"]), ...this.remove(this.scenario.links, index, `link ${name}`)]),
      element("div", { class: "fields" }, [...fields, parts[0]!, routing, ...parts.slice(1)]),
      ...(discipline && discipline.params.length > 0 ? [this.more(`queue-${index}`, `Parameters of ${discipline.name}`, this.params(discipline.params, queue))] : []),
      ...(access ? [this.more(`access-${index}`, `Parameters of ${access.name}`, this.params(access.params, service))] : []),
      ...(settings.length > 0 ? [this.more(`router-${index}`, `Parameters of the router`, settings)] : []),
    ]);
  }

  private flow(flow: Flow, index: number): HTMLElement {
    const { registry } = this;
    const name = nameOf(flow, index);
    const scheme = registry.schemes.find((entry) => entry.name === flow.scheme);
    const groups = new Map(registry.schemes.map((entry) => [entry.name, entry.learned ? "learned" : entry.assisted ? "with a router" : entry.requirement || entry.weight_above !== null ? "weights and requirements" : "alone"]));
    const order = ["alone", "weights and requirements", "with a router", "learned"];
    const schemes = registry.schemes.filter((entry) => !entry.rules).sort((a, b) => order.indexOf(groups.get(a.name)!) - order.indexOf(groups.get(b.name)!));
    const dot = element("span", { class: "dot" });
    dot.style.background = flowColour(this.before(index));
    const fields: HTMLElement[] = [
      field("Scheme", this.select(schemes.map((entry) => entry.name), String(flow.scheme), (chosen) => {
        const next = registry.schemes.find((entry) => entry.name === chosen)!;
        // A flow that is named after its scheme stays so; a name stands once in a scenario.
        if (flow.name !== undefined && [String(flow.scheme), `${String(flow.scheme)} ${/\d+$/.exec(flow.name)?.[0]}`].includes(flow.name)) {
          flow.name = unique(this.scenario.flows.filter((other) => other !== flow).map(nameOf), chosen);
        }
        flow.scheme = chosen;
        for (const key of ["params", "policy", "weight", "requirement", "changes", "rules"]) delete flow[key];
        if (next.weight_above !== null) flow["weight"] = 1;
        if (next.requirement) flow["requirement"] = { min_mbps: 5, max_mbps: 8 };
        if (next.learned) flow["policy"] = this.library.policies(chosen)[0] ?? "none";
        if (next.assisted) for (const link of this.scenario.links) if (!link["router"]) link["router"] = next.assisted;
        this.reshape();
      }, groups), scheme ? { help: scheme.summary } : {}),
      field("Name", this.text(flow, "name", `flow${index}`, String)),
      field("Starts (s)", this.number(flow, "start_s", "0", { min: 0 })),
      field("Stops (s)", this.number(flow, "stop_s", "at the end", { min: 0 })),
    ];
    if (scheme?.learned) {
      const policies = this.library.policies(scheme.name);
      const policy = flow["policy"];
      const now = typeof policy === "string" ? policy : isMapping(policy) && policy["constant"] !== undefined ? "constant" : policy === null || policy === undefined ? "none" : "as it is";
      fields.push(field("Policy", this.select([...policies, ["constant", "a constant action"], ["none", "none: its base alone"]] as (string | [string, string])[], now, (chosen) => {
        flow["policy"] = chosen === "constant" ? { constant: 1 } : chosen;
        this.reshape();
      })));
      if (isMapping(policy) && typeof policy["constant"] === "number") fields.push(field("Action", this.number(policy, "constant", "")));
    }
    if (scheme && scheme.weight_above !== null) fields.push(field("Weight", this.number(flow, "weight", "1", { min: scheme.weight_above })));
    if (scheme?.requirement) {
      const requirement = isMapping(flow["requirement"]) ? flow["requirement"] : (flow["requirement"] = { min_mbps: 5, max_mbps: 8 });
      fields.push(field("Needs at least (Mbit/s)", this.number(requirement as Mapping, "min_mbps", "")), field("At most (Mbit/s)", this.number(requirement as Mapping, "max_mbps", "")));
    }
    const app = isMapping(flow["app"]) ? flow["app"] : { type: "bulk" };
    fields.push(field("Application", this.select(registry.applications.map((entry) => entry.name), String(app["type"]), (chosen) => {
      if (chosen === "bulk") delete flow["app"];
      else flow["app"] = { type: chosen, ...Object.fromEntries((REQUIRED[chosen] ?? []).map((key) => [key, copy(BEGINNINGS[key]!)])) };
      this.reshape();
    })));
    const application = registry.applications.find((entry) => entry.name === app["type"]);
    for (const key of application?.fields ?? []) fields.push(field(key, this.text(app, key, "default")));
    fields.push(field("Copies", this.number(flow, "count", "1", { min: 1 })));
    const ecn = flow["ecn"];
    const more = [
      field("ECN", this.select([["", "as the scheme needs"], ["true", "classic"], ["accurate", "accurate"], ["false", "off"]], ecn === undefined ? "" : String(ecn), (chosen) => {
        if (chosen === "") delete flow["ecn"];
        else flow["ecn"] = chosen === "accurate" ? chosen : chosen === "true";
        this.changed();
      })),
      field("Base RTT (ms)", this.number(flow, "base_rtt_ms", "of the links", { min: 0 })),
      this.check("L4S packets", flow, "l4s"),
    ];
    if (this.scenario.links.length > 1) {
      more.push(field("Path (names of links)", this.list(flow, "path", "all links"), { whole: true }), field("Return path", this.list(flow, "return_path", "pure delay"), { whole: true }));
    }
    const params = scheme && scheme.params.length > 0 ? [this.more(`params-${index}`, `Parameters of ${scheme.name}`, this.params(scheme.params, this.paramsOf(flow)))] : [];
    return element("fieldset", {}, [
      element("legend", {}, [dot, element("span", { class: "name" }, [name]), ...this.remove(this.scenario.flows, index, `flow ${name}`)]),
      element("div", { class: "fields" }, fields),
      ...params,
      this.more(`more-${index}`, "Path and feedback", more),
    ]);
  }

  // Parameters come into the document with the first one that is set, and leave it with the last.
  private paramsOf(flow: Flow): Mapping {
    const own: Mapping = isMapping(flow.params) ? flow.params : {};
    const keep = (): boolean => {
      if (Object.keys(own).length > 0) flow.params = own;
      else delete flow.params;
      return true;
    };
    return new Proxy(own, {
      set: (target, key, value) => ((target[key as string] = value as Json), keep()),
      deleteProperty: (target, key) => (delete target[key as string], keep()),
    });
  }

  private list(of: Mapping, key: string, otherwise: string): HTMLInputElement {
    const input = element("input", { type: "text", placeholder: otherwise, autocomplete: "off" });
    const value = of[key];
    if (Array.isArray(value)) input.value = value.join(", ");
    input.addEventListener("change", () => {
      const names = input.value.split(",").map((name) => name.trim()).filter(Boolean);
      if (names.length === 0) delete of[key];
      else of[key] = names;
      this.changed();
    });
    return input;
  }

  private before(index: number): number {
    return this.scenario.flows.slice(0, index).reduce((sum, flow) => sum + (flow.count ?? 1), 0);
  }

  private whole(): HTMLElement {
    const { scenario } = this;
    const button = (label: string, add: () => void, which: () => number): HTMLElement => {
      const made = element("button", { type: "button" }, [label]);
      made.addEventListener("click", () => {
        add();
        this.reshape();
        this.place.querySelectorAll("fieldset")[which()]?.querySelector<HTMLElement>("select, input")?.focus();
      });
      return made;
    };
    return element("fieldset", {}, [
      element("legend", {}, [element("span", { class: "name" }, ["Run"])]),
      element("div", { class: "fields" }, [
        field("Duration (s)", this.number(scenario, "duration_s", "30", { min: 0.1 })),
        field("Seed", this.number(scenario, "seed", "1", { min: 0 })),
      ]),
      element("div", { class: "add" }, [
        button("+ flow", () => {
          const last = scenario.flows[scenario.flows.length - 1]!;
          const names = scenario.flows.map((flow, index) => nameOf(flow, index));
          scenario.flows.push({ ...copy(last), name: numbered(names, "flow"), scheme: typeof last.scheme === "string" ? last.scheme : "cubic" });
        }, () => scenario.links.length + scenario.flows.length - 1),
        button("+ link", () => {
          const names = scenario.links.map(linkName);
          // Names become part of the document once there are several links, since paths need them.
          scenario.links.forEach((link, index) => (link.name = names[index]!));
          scenario.links.push({ ...copy(scenario.links[scenario.links.length - 1]!), name: numbered(names, "link") });
        }, () => scenario.links.length - 1),
      ]),
    ]);
  }
}

/** Returns a name of a stem and a number that none of `names` is. */
function numbered(names: string[], stem: string): string {
  for (let number = names.length; ; number++) if (!names.includes(`${stem}${number}`)) return `${stem}${number}`;
}

/** Returns a name, with a number behind it if it is one of `names`. */
function unique(names: string[], name: string): string {
  for (let number = 1; ; number++) {
    const found = number === 1 ? name : `${name} ${number}`;
    if (!names.includes(found)) return found;
  }
}

/** Writes the names of flows that have theirs by their places into the document. */
function naming(scenario: Scenario): void {
  scenario.flows.forEach((flow, index) => (flow.name = nameOf(flow, index)));
}

/** Reads a number as it is written; returns a sentence that says how to write it if it is none. */
function numberOf(text: string): number | string {
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return Number(text);
  if (/^[+-]?\d+,\d{3}$/.test(text)) return `"${text}" can be read in two ways: write ${text.replace(",", ".")} or ${text.replace(",", "")}`;
  if (/^[+-]?\d*,\d+$/.test(text)) return `"${text}": write ${text.replace(",", ".")}`;
  return `"${text}" is no number: write one such as 7.5`;
}

function outside(value: number, min = -Infinity, max = Infinity): string {
  if (value < min) return `${value} is too small: write ${min} or more`;
  return value > max ? `${value} is too large: write ${max} or less` : "";
}

/** Shows under a field why its text was refused; takes the sentence away if it is empty. Returns true then. */
function said(input: HTMLInputElement, fault: string): boolean {
  input.setCustomValidity(fault);
  input.setAttribute("aria-invalid", String(fault !== ""));
  const field = input.closest(".field")!;
  let place = field.querySelector(".fault");
  if (fault === "") place?.remove();
  else {
    place ??= field.appendChild(element("span", { class: "fault", role: "alert" }));
    place.textContent = fault;
  }
  return fault === "";
}

/** Reads `0: 24, 10: 6` as steps of `name`; returns a sentence if it cannot. */
function stepsOf(text: string, name: string, scale: number): Json[] | string {
  const steps: Json[] = [];
  for (const part of text.split(",")) {
    const [when, value, more] = part.split(":").map((word) => word.trim());
    if (value === undefined || more !== undefined) return `"${part.trim()}": write steps such as 0: 24, 10: 6.5`;
    const [at, now] = [numberOf(when!), numberOf(value)];
    if (typeof at === "string") return at;
    if (typeof now === "string") return now;
    steps.push({ at_s: at, [name]: Math.round((now / scale) * 1e12) / 1e12 });
  }
  return steps;
}

/** Reads a word of a form as JSON if it is some, else as text. */
function plain(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}
