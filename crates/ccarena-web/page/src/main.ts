// The page: it holds the scenario, runs it in a worker, and plays what comes back.

import { Charts, MOST_LINES } from "./charts";
import { Composer } from "./composer";
import { files, text as embedded, unzipped } from "./embedded";
import { type Figure, type Figures, figures, FLOW_FIGURES, interval, LINK_FIGURES, type Result, RUN_FIGURES, shown } from "./figures";
import { PacketPicture, type Row } from "./packets";
import { flowColour, forget } from "./palette";
import { type Preset, preset } from "./presets";
import { Recording } from "./recording";
import type { Registry } from "./registry";
import * as document_ from "./scenario";
import { copy, DURATION_S, isMapping, type Mapping, type Scenario, type Turnable, turnables } from "./scenario";
import { equip, Fault, type Finished, type Opened, Session } from "./session";

declare const WORKER: string;

const $ = <T extends HTMLElement = HTMLElement>(id: string): T => document.getElementById(id) as T;
const SPEEDS: [number, string][] = [[0.01, "1/100"], [0.1, "1/10"], [1, "1×"], [4, "4×"], [Infinity, "max"]];
/** Most packets of which a log is kept: 80 MB. */
const MOST_PACKETS = 2e6;
const MOST_FILE_BYTES = 64e6;
/** Longest text of a scenario that is shown, characters. */
const MOST_SHOWN = 200_000;
/** Shortest virtual time between two steps that one slider makes, s. */
const APART_S = 0.25;
/** Time that charts may take of a frame, ms. */
const CHARTS_MS = 6;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

interface Kept {
  recording: Recording;
  schemes: string[];
  figures: Figures | null;
}

class Page {
  private readonly session = new Session();
  private readonly picture = new PacketPicture($<HTMLCanvasElement>("packets"));
  private readonly charts = new Charts($("charts"), (timeS) => this.seek(timeS));
  private readonly shares = $("charts").appendChild(document.createElement("div"));
  private composer: Composer | null = null;
  private registry: Registry | null = null;
  private presets: Preset[] = [];

  private scenario: Scenario = { links: [], flows: [] };
  /** The experiment that the scenario began as. */
  private from: Preset | null = null;
  /** The scenario before the first slider moved. */
  private before: Scenario | null = null;
  /** Before that, nothing else of the experiment was changed. */
  private untouched = false;
  private files = new Map<string, Uint8Array>();
  private shipped = new Set<string>();
  private recording = new Recording([], []);
  private coming: Recording | null = null;
  private opened: Opened | null = null;
  /** Links of each flow of the recording, by number. */
  private paths: number[][] = [];
  private finished: Finished | null = null;
  private figures: Figures | null = null;
  private kept: Kept | null = null;
  private knobs: { turnable: Turnable; input: HTMLInputElement; output: HTMLElement }[] = [];
  private hidden = new Set<number>();
  private form = "YAML";
  /** The text in that form, which may be longer than what is shown. */
  private whole = "";

  private timeS = 0;
  private speed = 4;
  private playing = false;
  /** A slider moved at the end: the new run is played once the slider is let go. */
  private again = false;
  private lastFrame = 0;
  private lastShares = 0;
  private lastWords = 0;
  private dirty = true;
  private pending: (() => void) | null = null;
  /** The message on the screen is that of a run that failed. */
  private failed = false;
  private runningSeeds: Session[] = [];
  /** Times of the last frames in ms, for tests: from one to the next, and of the drawing in it. */
  readonly frames: { betweenMs: number[]; drawingMs: number[] } = { betweenMs: [], drawingMs: [] };

  get durationS(): number {
    return this.scenario.duration_s ?? DURATION_S;
  }

  async begin(): Promise<void> {
    equip(() => WORKER, () => unzipped("engine"));
    this.presets = Object.entries(JSON.parse(embedded("presets-data") ?? "{}") as Record<string, string>).map(([name, text]) => preset(name, text));
    this.wire();
    this.showPresets();
    const [, name = ""] = /^#p=(.*)/.exec(location.hash) ?? [];
    const first = this.presets.find((one) => one.name === name) ?? this.presets[0]!;
    if (name !== "" || (location.hash === "" && !embedded("given"))) this.about(first.title, first.watch);
    requestAnimationFrame((now) => this.frame(now));
    try {
      const shipped = files(new TextDecoder().decode(await unzipped("shipped")));
      this.shipped = new Set(shipped.keys());
      this.files = new Map([...shipped, ...files(embedded("given-files") || "{}")]);
      this.registry = JSON.parse(await this.session.start()) as Registry;
    } catch (error) {
      this.cover("The simulator did not start.");
      this.say(error);
      return;
    }
    $<HTMLButtonElement>("run").disabled = false;
    this.composer = new Composer($("form"), this.registry, {
      traces: () => [...this.files.keys()].filter((name) => schemeOf(this.files.get(name)!) === null),
      policies: (scheme) => [...this.files.keys()].filter((name) => schemeOf(this.files.get(name)!) === scheme),
      open: () => $<HTMLInputElement>("files").click(),
    }, () => this.edited());
    await this.fromAddress();
    window.addEventListener("hashchange", () => void this.fromAddress());
  }

  // ---- Where scenarios come from ----

  private async fromAddress(): Promise<void> {
    const hash = location.hash.slice(1);
    if (hash === this.written) return;
    this.written = hash;
    const [kind, value = ""] = [hash.slice(0, 2), hash.slice(2)];
    try {
      if (kind === "s=") {
        let found: unknown;
        try {
          found = await document_.unpacked(value.split("~")[0]!);
        } catch (error) {
          throw new Fault(`the scenario in the address cannot be read: ${(error as Error).message}; ask for the link again, or open the file`);
        }
        this.take(found, null);
        const began = this.presets.find((one) => value.endsWith(`~${one.name}`));
        if (began) {
          this.from = began;
          this.markChanged();
        }
        return;
      }
      const given = kind === "p=" ? null : embedded("given");
      if (given !== null && given !== "") {
        this.take(await this.session.read(given), null);
        return;
      }
      const name = kind === "p=" ? value : this.presets[0]!.name;
      const chosen = this.presets.find((one) => one.name === name);
      if (!chosen) throw new Fault(`the address names the experiment "${value}", and there is none: expected ${this.presets.map((one) => one.name).join(", ")}`);
      await this.choose(chosen, false);
    } catch (error) {
      if (this.scenario.flows.length === 0) await this.choose(this.presets[0]!, false);
      this.say(error);
    }
  }

  private async choose(chosen: Preset, write = true): Promise<void> {
    this.say(null);
    try {
      this.take(await this.session.read(chosen.text), chosen);
      if (write) this.address(`p=${chosen.name}`);
    } catch (error) {
      this.say(error);
    }
  }

  private about(title: string, watch: string): void {
    $("title").textContent = title;
    $("watch").textContent = watch;
    $("watch").classList.remove("changed");
  }

  private take(found: unknown, from: Preset | null): void {
    const scenario = document_.outline(found);
    if (typeof scenario === "string") throw new Fault(scenario);
    this.scenario = copy(scenario);
    this.before = null;
    this.untouched = false;
    this.hidden.clear();
    this.from = from;
    this.about(from?.title ?? "Your scenario", from?.watch ?? "Change it in the form, or move its sliders while it runs.");
    for (const button of $("presets").children) button.setAttribute("aria-current", String((button as HTMLElement).dataset["name"] === from?.name));
    this.composer?.show(this.scenario);
    this.start();
  }

  private written = "-";
  /** Counts scenarios that were packed for the address. */
  private writing = 0;
  private address(hash: string): void {
    this.written = hash;
    try {
      history.replaceState(null, "", `#${hash}`);
    } catch {
      location.hash = hash;
    }
  }

  private async writeAddress(): Promise<void> {
    const { from, written } = this;
    const number = ++this.writing;
    const packed = await document_.packed(this.scenario);
    // A later change may have written its own meanwhile, as the choice of an experiment does.
    if (number === this.writing && written === this.written) this.address(`s=${packed}${from ? `~${from.name}` : ""}`);
  }

  /** The form changed the scenario. */
  private edited(): void {
    this.before = null;
    for (const button of $("presets").children) button.setAttribute("aria-current", "false");
    this.markChanged();
    void this.writeAddress();
    this.start();
  }

  /** The scenario is no longer the one of the title: what the text says need not hold. */
  private markChanged(): void {
    const title = this.from?.title ?? $("title").textContent!.replace(/, changed$/, "");
    this.about(`${title}, changed`, this.from ? `Before the change: ${this.from.watch}` : "");
    $("watch").classList.add("changed");
  }

  // ---- Running ----

  private start(): void {
    this.say(null);
    this.timeS = 0;
    this.playing = !calm.matches || this.playing;
    for (const id of ["figures", "differences", "intervals", "note"]) $(id).replaceChildren();
    this.simulate(0);
    this.shapeKnobs();
    this.showText();
  }

  /** Simulates the scenario from its beginning; what is on the screen stays until the new run has reached `fromS`. */
  private simulate(fromS: number): void {
    if (this.runningSeeds.length > 0) this.endSeeds("");
    $("intervals").replaceChildren();
    for (const id of ["figures", "differences"]) $(id).classList.add("stale");
    let begun = false;
    this.coming = null;
    this.opened = null;
    this.finished = null;
    this.figures = null;
    this.pending = null;
    $("digest").textContent = "";
    $("cancel").hidden = false;
    const scenario = JSON.stringify(this.scenario);
    this.session.run({ scenario, files: this.files, packets: MOST_PACKETS }, {
      opened: (news) => {
        begun = true;
        this.opened = news;
        this.coming = new Recording(news.flows, news.links);
        if (this.failed) this.say(null);
        this.failed = false;
        $("note").textContent = [
          news.packets ? "" : `About ${(news.estimate / 1e6).toFixed(0)} million packets: too many to keep, so the picture of packets and figures of delays are left out.`,
          news.flows.length > MOST_LINES ? `The charts show the first ${MOST_LINES} of ${news.flows.length} flows.` : "",
        ].join(" ").trim();
        if (fromS === 0) this.swap();
      },
      update: (news) => {
        (this.coming ?? this.recording).append(news.update);
        if (this.coming && (this.coming.nowS >= fromS || news.update.done)) this.swap();
        this.dirty = true;
        const next = this.pending;
        if (next && !this.coming) {
          this.pending = null;
          next();
        }
      },
      finished: (news) => {
        this.finished = news;
        $("cancel").hidden = true;
        const result = JSON.parse(news.result) as Result;
        if (this.opened) this.figures = figures(result, this.recording, this.opened.paths);
        this.showFigures(result);
        $("digest").replaceChildren(
          `Digest of the result (SHA-256): `, code(news.digest), `. The same natively: `, code("ccarena eval --scenario scenario.yaml --digest"),
          `. Simulated here: ${this.recording.packets.toLocaleString("en").replaceAll(",", "\u202f")} packets in ${(news.tookMs / 1000).toFixed(1)} s.`,
        );
        if (calm.matches && !this.playing) this.seek(this.durationS);
      },
      failed: (fault) => {
        $("cancel").hidden = true;
        this.playing = false;
        this.coming = null;
        this.failed = true;
        if (!begun) this.clear();
        this.dirty = true;
        this.say(this.explained(fault, this.scenario, this.files));
      },
    });
  }

  /** Takes the last run off the page, so that it does not stand under a title that is not its own. */
  private clear(): void {
    this.recording = new Recording([], []);
    this.opened = this.finished = this.figures = null;
    this.timeS = 0;
    this.picture.clear();
    this.charts.clear();
    this.shares.replaceChildren();
    delete this.shares.dataset["for"];
    for (const id of ["legend", "figures", "differences", "intervals", "digest", "note"]) $(id).replaceChildren();
    this.cover("Not run: the message above says why.");
  }

  /** Lays words over the picture and takes the charts away, or shows both. */
  private cover(words: string | null): void {
    $("cover").hidden = words === null;
    $("cover").textContent = words ?? "";
    document.body.classList.toggle("without-run", words !== null);
  }

  private swap(): void {
    const same = this.recording.flowNames.join() === this.coming!.flowNames.join() && this.recording.linkNames.join() === this.coming!.linkNames.join() && this.timeS > 0;
    this.recording = this.coming!;
    this.coming = null;
    this.dress(same);
  }

  /** Shapes pictures and charts for the recording; those of the same flows and links keep what they show. */
  private dress(same = false): void {
    const opened = this.opened!;
    this.paths = opened.paths;
    this.cover(null);
    const rows: Row[] = opened.links.map((name, index) => ({
      name, room: opened.rooms[index]!, varies: !["constant", "steps"].includes(String(this.scenario.links[index]?.service?.["type"])), flows: opened.paths.flatMap((path, flow) => (path.includes(index) ? [flow] : [])),
      from: beside(opened, index, -1), to: beside(opened, index, 1),
      apart: apart(String(this.scenario.links[index]?.queue?.["type"])),
      l4s: this.scenario.links[index]?.queue?.["type"] === "dualpi2" ? new Set(opened.l4s.flatMap((low, flow) => (low ? [flow] : []))) : null,
      // A table of conditions has delays of its own, which the form does not know.
      delayMs: (timeS) => (this.scenario.links[index]?.["conditions"] === undefined ? document_.at(this.scenario.links[index]?.["delay_ms"], "delay_ms", timeS, 10) : NaN),
    }));
    if (!same) {
      this.picture.shape(rows);
      this.showLegend();
    }
    this.charts.shape(this.recording, this.kept?.recording ?? null, this.durationS, (link) => {
      const only = rows[link]?.flows ?? []; // a kept run may have more links
      return only.length === 1 && rows.length > 1 ? only[0]! : -1;
    }, (flow) => this.pairs().indexOf(flow));
    this.charts.show(this.hidden);
    this.dirty = true;
  }

  /** Returns the flow of the kept run that each flow is compared with: of the same name, else of the same scheme; or -1. */
  private pairs(): number[] {
    if (!this.kept) return [];
    const { schemes, recording } = this.kept;
    const taken = new Set<number>();
    const take = (found: number): number => {
      if (found >= 0) taken.add(found);
      return found;
    };
    const names = recording.flowNames;
    const pairs = this.recording.flowNames.map((name) => take(names.indexOf(name)));
    const own = this.schemes();
    return pairs.map((pair, flow) => (pair >= 0 ? pair : take(names.findIndex((_, old) => !taken.has(old) && schemes[old] !== undefined && schemes[old] === own[flow]))));
  }

  /** Returns the schemes of the recording's flows; the copies of a flow are several. */
  private schemes(): string[] {
    return this.scenario.flows.flatMap((flow) => Array.from({ length: Math.min(flow.count ?? 1, 1000) }, () => String(flow.scheme)));
  }

  private cancel(): void {
    this.session.stop();
    this.playing = false;
    this.coming = this.opened = null;
    $("cancel").hidden = true;
    this.dirty = true;
    this.say("Cancelled. What was simulated so far stays here; Run begins again.", "neutral");
  }

  /** A slider reads the scenario as it is now: the settings that it was made for may have been replaced. */
  private fresh(turnable: Turnable): Turnable {
    return turnables(this.scenario).find((one) => one.id === turnable.id) ?? turnable;
  }

  private turn(turnable: Turnable, value: number): void {
    // Nothing comes after the end: a move there changes the beginning, and the page shows the new run once it is whole.
    const atEnd = (): boolean => this.timeS >= this.durationS - 1e-9;
    this.again ||= atEnd() && this.speed !== Infinity && !calm.matches;
    const act = (): void => {
      const when = atEnd() ? 0 : this.timeS;
      if (Math.abs(this.fresh(turnable).at(when) - value) < 1e-9) return;
      this.untouched ||= this.before === null && !$("watch").classList.contains("changed");
      this.before ??= copy(this.scenario);
      turnable.set(this.scenario, when, value, when > 0 ? APART_S : 0);
      this.simulate(this.timeS);
      this.markChanged();
      this.showText();
      $("undo").hidden = false;
    };
    if (this.coming && this.timeS > 0) this.pending = act; // once the run of the last move has come up to here
    else act();
  }

  // ---- Playing ----

  private frame(now: number): void {
    const between = now - this.lastFrame;
    this.lastFrame = now;
    const began = performance.now();
    if (this.playing && !this.coming && this.opened) {
      const limit = this.recording.done ? this.durationS : Math.min(this.recording.nowS, this.durationS);
      const next = this.speed === Infinity ? limit : Math.min(this.timeS + (Math.min(between, 100) / 1000) * this.speed, limit);
      if (next !== this.timeS) this.dirty = true;
      this.timeS = next;
      if (this.recording.done && next >= this.durationS) this.pause();
    }
    const drawn = this.dirty && (!calm.matches || !this.playing || now - this.lastShares > 250);
    if (drawn) {
      this.dirty = false;
      this.draw(now);
    }
    if (this.recording.flowNames.length > 0) this.charts.draw(this.timeS, began + (this.playing ? CHARTS_MS : 40));
    if (this.playing) {
      keep(this.frames.betweenMs, between);
      keep(this.frames.drawingMs, performance.now() - began);
    }
    requestAnimationFrame((next) => this.frame(next));
  }

  private draw(now: number): void {
    const pace = this.speed === Infinity ? 20 : this.speed;
    if (this.recording.linkNames.length > 0) this.picture.draw(this.recording, this.timeS, pace, this.hidden);
    $("clock").textContent = `${this.timeS.toFixed(this.speed < 1 ? 3 : 1)} / ${this.durationS} s`;
    const scrub = $<HTMLInputElement>("scrub");
    scrub.value = String(Math.round((this.timeS / this.durationS) * 1000));
    scrub.setAttribute("aria-valuetext", `${this.timeS.toFixed(1)} seconds of ${this.durationS}`);
    $("run").textContent = this.playing ? "Pause" : this.timeS >= this.durationS ? "Run again" : "Run";
    this.showProgress();
    if (now - this.lastShares > 120 || !this.playing) {
      this.lastShares = now;
      this.showShares();
      for (const knob of this.knobs) if (document.activeElement !== knob.input || !this.playing) this.showKnob(knob);
    }
    if (now - this.lastWords > 5000 || !this.playing) {
      this.lastWords = now;
      this.showWords();
    }
  }

  /** Shows on the button how much of the run is simulated. */
  private showProgress(): void {
    const { done, nowS } = this.coming ?? this.recording;
    const simulating = !$("cancel").hidden && !done;
    const share = simulating ? Math.floor((100 * nowS) / this.durationS) : 0;
    $("run").style.setProperty("--simulated", `${share}%`);
    $("run").title = simulating ? `simulated: ${share} %` : "";
  }

  private play(): void {
    if (this.failed) {
      this.start();
      return;
    }
    if (this.timeS >= this.durationS) this.timeS = 0;
    if (this.recording.flowNames.length === 0 || (!this.recording.done && !this.opened)) this.simulate(this.timeS);
    this.playing = true;
    this.dirty = true;
  }

  private pause(): void {
    this.playing = false;
    this.dirty = true;
  }

  private seek(timeS: number): void {
    this.again = false;
    this.timeS = Math.max(0, Math.min(timeS, this.recording.done ? this.durationS : this.recording.nowS));
    this.dirty = true;
  }

  // ---- Showing ----

  say(what: unknown, kind = "bad"): void {
    const place = $("message");
    if (what === null) {
      place.hidden = true;
      return;
    }
    const said = what instanceof Error ? what.message : String(what);
    // A page has no environment variables.
    const message = said.replace(/, or set CCARENA_LIMITS=\S+ to allow \d+ times the default/, ", or run it with the command, where CCARENA_LIMITS allows more");
    const dismiss = element("button", "Dismiss");
    dismiss.addEventListener("click", () => (place.hidden = true));
    place.className = `callout ${kind}`;
    place.replaceChildren(element("p", message), dismiss);
    place.hidden = false;
    $("run").textContent = "Run";
  }

  private showPresets(): void {
    $("presets").replaceChildren(...this.presets.map((one) => {
      const button = element("button", one.title.split(":")[0]!);
      button.title = one.title;
      button.dataset["name"] = one.name;
      button.addEventListener("click", () => void this.choose(one));
      return button;
    }));
  }

  private showLegend(): void {
    const names = this.recording.flowNames;
    $("legend").replaceChildren(...names.slice(0, MOST_LINES).map((name, flow) => {
      const button = element("button", "");
      const mark = document.createElement("i");
      mark.style.background = flowColour(flow);
      button.append(mark, name);
      button.setAttribute("aria-pressed", String(!this.hidden.has(flow)));
      button.addEventListener("click", () => {
        if (!this.hidden.delete(flow)) this.hidden.add(flow);
        button.setAttribute("aria-pressed", String(!this.hidden.has(flow)));
        this.charts.show(this.hidden);
        this.dirty = true;
      });
      return button;
    }), ...(names.length > MOST_LINES ? [element("small", `and ${names.length - MOST_LINES} more`)] : []));
  }

  private disjoint(): boolean {
    const links = this.paths.flat();
    return this.paths.length > 1 && new Set(links).size === links.length;
  }

  /** Returns the mean capacity of the narrowest link of a flow over the last second. */
  private capacity(flow: number): number {
    const { recording, timeS } = this;
    return Math.min(...this.paths[flow]!.map((link) => recording.mean(recording.links[link]!.capacity_mbps, timeS - 1, timeS) || 0));
  }

  private showShares(): void {
    const names = this.recording.flowNames.slice(0, MOST_LINES);
    const rates = this.recording.flows.map((flow) => this.recording.mean(flow.rate_mbps, this.timeS - 1, this.timeS) || 0);
    const total = rates.reduce((sum, rate) => sum + rate, 0);
    const disjoint = this.disjoint();
    const shape = JSON.stringify([disjoint, this.recording.flowNames]);
    if (this.shares.dataset["for"] !== shape) {
      this.shares.dataset["for"] = shape;
      this.shares.className = "chart";
      const head = document.createElement("h3");
      // Flows that meet on no link share nothing: each has its own link to use.
      head.append(this.disjoint() ? "Use of its link" : "Share", element("small", "of the last second"));
      const list = document.createElement("div");
      list.className = names.length > 8 ? "shares many" : "shares";
      list.append(...names.map((name, flow) => {
        const row = document.createElement("div");
        row.className = "share";
        const track = element("span", "");
        track.className = "track";
        const bar = track.appendChild(element("span", ""));
        bar.className = "bar";
        bar.style.background = flowColour(flow);
        const value = element("span", "");
        value.className = "value";
        row.append(element("span", name), track, value);
        return row;
      }));
      this.shares.replaceChildren(head, list);
    }
    const rows = this.shares.lastElementChild!.children;
    // Bars of many flows fill the room that the largest needs.
    const whole = names.length > 8 ? Math.max(...rates.slice(0, names.length)) : total;
    names.forEach((_, flow) => {
      const row = rows[flow]!;
      const of = disjoint ? this.capacity(flow) : total;
      const share = of > 0 ? rates[flow]! / of : 0;
      const scale = disjoint ? of : whole;
      (row.children[1]!.firstElementChild as HTMLElement).style.width = `${scale > 0 ? Math.min(100, (rates[flow]! / scale) * 100).toFixed(1) : 0}%`;
      row.children[2]!.textContent = `${rates[flow]!.toFixed(1)} · ${(share * 100).toFixed(0)} %`;
    });
  }

  private showWords(): void {
    const { recording } = this;
    if (recording.flowNames.length === 0) return;
    const flows = recording.flowNames.slice(0, 6).map((name, index) => `${name} ${(recording.mean(recording.flows[index]!.rate_mbps, this.timeS - 1, this.timeS) || 0).toFixed(1)} Mbit/s`);
    const links = recording.linkNames.slice(0, 3).map((name, index) => `${name} queues ${shown(recording.mean(recording.links[index]!.queueing_ms, this.timeS - 1, this.timeS), 0)} ms`);
    $("summary").textContent = `At ${this.timeS.toFixed(0)} seconds: ${[...flows, ...links].join(", ")}.`;
  }

  private shapeKnobs(): void {
    const undo = element("button", "Undo slider changes");
    undo.id = "undo";
    undo.hidden = this.before === null;
    undo.addEventListener("click", () => {
      if (!this.before) return;
      this.scenario = this.before;
      this.before = null;
      this.composer?.show(this.scenario);
      if (this.untouched && this.from) {
        this.about(this.from.title, this.from.watch);
        this.address(`p=${this.from.name}`);
      } else void this.writeAddress();
      this.untouched = false;
      this.start();
    });
    this.knobs = turnables(this.scenario).map((turnable) => {
      const label = document.createElement("div");
      label.className = "knob";
      const input = document.createElement("input");
      input.type = "range";
      input.min = "0";
      input.max = "1000";
      input.step = "1";
      input.setAttribute("aria-label", turnable.label);
      const output = document.createElement("span");
      label.append(element("span", turnable.label), output, input);
      const knob = { turnable, input, output };
      input.addEventListener("input", () => {
        const value = valueOf(turnable, Number(input.value));
        this.showValue(knob, value);
        this.turn(turnable, value);
      });
      input.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -8, PageUp: 8 }[event.key];
        if (by === undefined) return;
        event.preventDefault();
        const turnable = this.fresh(knob.turnable);
        const now = turnable.at(this.timeS >= this.durationS ? 0 : this.timeS);
        const value = moved(turnable, now, by);
        if (value === now) return;
        input.value = String(placeOf(turnable, value));
        this.showValue(knob, value);
        this.turn(turnable, value);
        input.dispatchEvent(new Event("change"));
      });
      input.addEventListener("change", () => {
        if (this.again && this.timeS >= this.durationS - 1e-9) {
          this.timeS = 0;
          this.playing = true;
        }
        this.again = false;
        void this.writeAddress();
        this.composer?.show(this.scenario);
        turnables(this.scenario).forEach((fresh, index) => this.knobs[index]?.turnable.id === fresh.id && Object.assign(this.knobs[index]!, { turnable: fresh }));
      });
      this.showKnob(knob);
      return knob;
    });
    $("turn").replaceChildren(...this.knobs.map((knob) => knob.input.parentElement!), undo);
  }

  private showValue(knob: Page["knobs"][number], value: number): void {
    const { unit } = knob.turnable;
    const words = `${Math.round(value * 100) / 100}${unit ? ` ${unit}` : ""}`;
    knob.output.textContent = words;
    knob.input.setAttribute("aria-valuetext", words);
  }

  private showKnob(knob: Page["knobs"][number]): void {
    knob.turnable = this.fresh(knob.turnable);
    const value = knob.turnable.at(this.timeS >= this.durationS ? Infinity : this.timeS);
    knob.input.value = String(placeOf(knob.turnable, value));
    this.showValue(knob, value);
  }

  private showText(): void {
    const text = { YAML: document_.yaml, Python: document_.python, Command: document_.command }[this.form]!(this.scenario);
    $("text").textContent = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}\n… ${text.length - MOST_SHOWN} more characters: "copy" takes all` : text;
    this.whole = text;
    const used = [...this.files.keys()].filter((name) => text.includes(name) && !this.shipped.has(name));
    $("needs").textContent = used.length > 0 ? `It needs ${used.join(", ")} in the same folder; the address does not hold ${used.length > 1 ? "them" : "it"}.` : "";
    for (const tab of $("forms").children) tab.setAttribute("aria-selected", String(tab.textContent === this.form));
  }

  private showFigures(result: Result): void {
    const found = this.figures;
    if (!found) return;
    const { kept } = this;
    const there = FLOW_FIGURES.filter((figure) => found.flows.some((row) => Number.isFinite(row[figure.name])));
    const flows = table(
      ["flow", "scheme", ...there.map(head)],
      result.flows.map((flow, index) => [colourful(flow.name, index), flow.scheme, ...there.map((figure) => shown(found.flows[index]![figure.name], figure.digits))]), 2,
    );
    const links = table(
      ["link", ...LINK_FIGURES.map(head), "Marked (packets)"],
      result.links.map((link, index) => [element("span", link.name), ...LINK_FIGURES.map((figure) => shown(found.links[index]![figure.name], figure.digits)), String(found.links[index]!["marked_packets"])]), 1,
    );
    const words = this.disjoint() ? [] : RUN_FIGURES.filter((figure) => Number.isFinite(found.run[figure.name])).map((figure) => `${figure.title}: ${shown(found.run[figure.name], figure.digits)}. `);
    const notes = result.flows.flatMap((flow) => [flow.fallback, flow.error].filter((note) => note !== undefined).map((note) => `${flow.name}: ${note}. `));
    const note = element("p", [...words, ...notes].join(""));
    note.className = "note";
    $("figures").replaceChildren(flows, links, note);
    for (const id of ["figures", "differences"]) $(id).classList.remove("stale");
    const differences = $("differences");
    differences.replaceChildren();
    if (!kept?.figures) return;
    const pairs = this.pairs();
    const title = element("h3", "This run, and below each figure the kept run (A) and the difference to it");
    const rows = found.flows.flatMap((row, index) => {
      const other = kept.figures!.flows[pairs[index] ?? -1];
      if (!other) return [];
      return [[colourful(result.flows[index]!.name, index), ...there.map((figure) => {
        const [before, now] = [other[figure.name]!, row[figure.name]!];
        const cell = element("span", shown(now, figure.digits));
        const difference = now - before;
        if (Number.isFinite(difference)) {
          const sign = difference > 0 ? "+" : difference < 0 ? "−" : "±";
          cell.append(document.createElement("br"), element("small", `A ${shown(before, figure.digits)}, ${sign}${shown(Math.abs(difference), figure.digits)}`));
        }
        return cell;
      })]];
    });
    const left = element("p", rows.length === 0 ? "A has other flows: no flow has a partner of the same name or scheme there." : rows.length < found.flows.length ? "The other flows have no partner of the same name or scheme in A." : "");
    left.className = "note";
    differences.append(title, ...(rows.length > 0 ? [table(["flow", ...there.map(head)], rows, 1)] : []), left);
  }

  // ---- Several seeds ----

  private seeds(): void {
    if (this.runningSeeds.length > 0) {
      this.endSeeds("Cancelled.");
      return;
    }
    const many = Number($<HTMLSelectElement>("seed-count").value);
    const first = this.scenario.seed ?? 1;
    const workers = Math.min(many, Math.max(1, (navigator.hardwareConcurrency || 2) - 1), 4);
    const scenario = JSON.stringify(this.scenario);
    const found: { seed: number; figures: Figures; result: Result }[] = [];
    let next = 0;
    $("seeds").textContent = "Cancel seeds";
    $("intervals").scrollIntoView({ block: "nearest" });
    const place = $("intervals");
    const one = (session: Session): void => {
      if (next >= many) {
        session.stop();
        this.runningSeeds = this.runningSeeds.filter((other) => other !== session);
        if (found.length === many) this.endSeeds(null, found);
        return;
      }
      const seed = first + next++;
      session.run({ scenario, files: this.files, seed, packets: MOST_PACKETS, whole: true }, {
        finished: (news) => {
          found.push({ seed, figures: news.figures!, result: JSON.parse(news.result) as Result });
          place.replaceChildren(element("p", `${found.length} of ${many} seeds`));
          one(session);
        },
        failed: (fault) => this.endSeeds(`Seed ${seed}: ${fault.message}`),
      });
    };
    place.replaceChildren(element("p", `0 of ${many} seeds`));
    this.runningSeeds = Array.from({ length: workers }, () => new Session());
    for (const session of [...this.runningSeeds]) one(session);
  }

  private endSeeds(message: string | null, found: { seed: number; figures: Figures; result: Result }[] = []): void {
    for (const session of this.runningSeeds) session.stop();
    this.runningSeeds = [];
    $("seeds").textContent = "Run seeds";
    const place = $("intervals");
    if (message !== null) {
      place.replaceChildren(element("p", message));
      return;
    }
    found.sort((a, b) => a.seed - b.seed);
    const first = found[0]!;
    const there = FLOW_FIGURES.filter((figure) => first.figures.flows.some((row) => Number.isFinite(row[figure.name])));
    const rows = first.result.flows.map((flow, index) => [colourful(flow.name, index), ...there.map((figure) => {
      const { mean, half } = interval(found.map((one) => one.figures.flows[index]?.[figure.name] ?? NaN));
      return half >= 0.5 * 10 ** -figure.digits ? `${shown(mean, figure.digits)} ± ${shown(half, figure.digits)}` : shown(mean, figure.digits);
    })]);
    const title = element("h3", `Seeds ${first.seed} to ${found[found.length - 1]!.seed}: mean ± half of the 95 % interval`);
    const same = found.every((one) => JSON.stringify(one.figures) === JSON.stringify(first.figures));
    const traces = this.scenario.links.some((link) => isMapping(link.service) && (link.service as Mapping)["type"] === "trace");
    const note = element("p", [
      same ? "Nothing in this scenario is random: every seed gives the same figures." : "",
      traces ? "Here every seed starts a recorded trace at its beginning; the command starts the others at a time drawn from the seed." : "",
    ].join(" ").trim());
    note.className = "note";
    place.replaceChildren(title, table(["flow", ...there.map(head)], rows, 1), note);
  }

  // ---- Files ----

  /** Opens files. They are tried on copies first: what is refused changes nothing. */
  private async open(list: Iterable<File>): Promise<void> {
    this.say(null);
    const reader = new Session();
    let name = "";
    try {
      const files = new Map(this.files);
      let scenario: Scenario | null = null;
      let opened = "";
      const added: string[] = [];
      for (const file of list) {
        name = file.name;
        const isScenario = /\.(ya?ml|json)$/i.test(name);
        const most = isScenario ? document_.MOST_BYTES : MOST_FILE_BYTES;
        if (file.size > most) throw new Fault(`it has ${(file.size / 1e6).toFixed(1)} MB; expected at most ${most / 1e6} MB`);
        if (isScenario) {
          const found = document_.outline(await reader.read(await file.text()));
          if (typeof found === "string") throw new Fault(found);
          scenario = found;
          opened = name;
        } else {
          files.set(name, new Uint8Array(await file.arrayBuffer()));
          added.push(name);
        }
      }
      const next = scenario ?? copy(this.scenario);
      // A file that the scenario names has its place.
      const named = document_.filesOf(next);
      const others = scenario ? [] : added.filter((one) => !named.includes(one));
      for (name of others) this.use(name, next, files);
      name = scenario ? opened : added.join(", ");
      try {
        await reader.check(JSON.stringify(next), files);
      } catch (error) {
        throw this.explained(error as Fault, next, files);
      }
      this.files = files;
      if (scenario) {
        this.take(scenario, null);
        $("title").textContent = opened;
        void this.writeAddress();
      } else if (added.length > 0) {
        this.scenario = next;
        this.composer?.show(this.scenario);
        if (others.length > 0) this.edited();
        else this.start();
      }
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.say(new Fault(`${name}: ${message.replace(/^scenario/, "").replace(/^[:,] /, "")}. Nothing was changed.`.replace("..", ".")));
    } finally {
      reader.stop();
    }
  }

  /** Returns a fault; of a file that is not in the page, one that says which files are not, and what to do. */
  private explained(fault: Fault, scenario: Scenario, files: Map<string, Uint8Array>): Fault {
    const names = document_.filesOf(scenario).filter((name) => !files.has(name));
    if (names.length === 0 || !/no file of this name was given/.test(fault.message)) return fault;
    const them = names.length > 1 ? "them" : "it";
    return new Fault(`this scenario needs ${names.join(", ")}, which ${names.length > 1 ? "are" : "is"} not in this page: a link holds no files, and a page forgets those that were dropped on it when it is loaded again. Drop ${them} here${names.length > 1 ? ", all at once" : ""}; "ccarena play scenario.yaml" writes a page that keeps ${them}`);
  }

  /** Puts a loaded file where it belongs: a policy decides for the flows of its scheme, a trace drives the first link. */
  private use(name: string, scenario: Scenario, files: Map<string, Uint8Array>): void {
    const file = files.get(name)!;
    if (name.endsWith(".safetensors")) {
      const scheme = schemeOf(file);
      if (scheme === null) {
        throw new Fault(`it is no policy of ccarena: expected a .safetensors file whose header has a "spec" (docs/artifact.md)`);
      }
      const own = scenario.flows.filter((flow) => flow.scheme === scheme);
      for (const flow of own.length > 0 ? own : scenario.flows.slice(0, 1)) {
        flow.scheme = scheme;
        delete flow.params;
        flow["policy"] = name;
      }
      const router = this.registry?.schemes.find((entry) => entry.name === scheme)?.assisted;
      if (router) for (const link of scenario.links) link["router"] ||= router;
      return;
    }
    // Traces are lists of numbers.
    const odd = file.subarray(0, 4096).findIndex((byte) => byte > 126 || (byte < 32 && ![9, 10, 13].includes(byte)));
    if (odd >= 0) throw new Fault(`byte ${odd} is no text; expected a trace (a time in ms a line), a table of conditions (.csv), a policy (.safetensors) or a scenario (.yaml, .json)`);
    const link = scenario.links[0]!;
    if (/\.csv$/i.test(name)) {
      for (const key of ["service", "delay_ms", "loss"]) delete link[key];
      link["conditions"] = { file: name };
      if (link.queue?.["bdp"] !== undefined || !link.queue) link.queue = { type: "droptail", packets: 300 };
    } else {
      delete link["conditions"];
      link.service = { type: "trace", file: name };
    }
  }

  // ---- Buttons and keys ----

  private wire(): void {
    const on = (id: string, act: () => void): void => $(id).addEventListener("click", act);
    on("run", () => (this.playing ? this.pause() : this.play()));
    on("step", () => {
      this.pause();
      this.seek(this.timeS + Math.min(1, Math.max(0.001, (this.speed === Infinity ? 1 : this.speed) / 10)));
    });
    on("again", () => {
      this.seek(0);
      this.play();
    });
    on("cancel", () => this.cancel());
    on("keep", () => {
      this.kept = { recording: this.recording, figures: this.figures, schemes: this.schemes() };
      $("drop").hidden = false;
      $("kept").textContent = `A is "${$("title").textContent}". The next runs are drawn over it, and a table compares them.`;
      this.dirty = true;
    });
    on("drop", () => {
      this.kept = null;
      $("drop").hidden = true;
      $("differences").replaceChildren();
      $("kept").textContent = "";
      this.start();
    });
    on("seeds", () => this.seeds());
    on("open", () => $<HTMLInputElement>("files").click());
    on("share", () => void this.share());
    on("copy", () => void this.toClipboard(this.whole, $("copy")));
    on("theme", () => {
      const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (!document.documentElement.dataset["theme"] && matchMedia("(prefers-color-scheme: dark)").matches);
      document.documentElement.dataset["theme"] = dark ? "light" : "dark";
      this.recolour();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    const choose = $<HTMLInputElement>("files");
    choose.addEventListener("change", () => {
      void this.open([...(choose.files ?? [])]);
      choose.value = "";
    });
    $("scrub").addEventListener("input", () => {
      this.pause();
      this.seek((Number($<HTMLInputElement>("scrub").value) / 1000) * this.durationS);
    });
    radios($("speeds"), SPEEDS.map(([, label]) => label), "4×", "radio", (label) => {
      this.speed = SPEEDS.find((speed) => speed[1] === label)![0];
      this.dirty = true;
    });
    radios($("forms"), ["YAML", "Python", "Command"], "YAML", "tab", (label) => {
      this.form = label;
      this.showText();
    });
    window.addEventListener("keydown", (event) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input:not([type=range], [type=checkbox]), select, textarea, [contenteditable]")) return;
      // Space presses what the keyboard has chosen.
      if (event.key === " " && target.closest("button, summary, [type=checkbox]")) return;
      const act = ({ " ": "run", ".": "step", "0": "again", Escape: "cancel" } as Record<string, string>)[event.key];
      if (!act || (act === "cancel" && $("cancel").hidden)) return;
      event.preventDefault();
      $(act).click();
    });
    // A button that the pointer pressed keeps no focus, or the next space would press it again.
    window.addEventListener("click", (event) => {
      if (event.detail > 0 && document.activeElement?.matches("button, summary")) (document.activeElement as HTMLElement).blur();
    });
    let depth = 0;
    window.addEventListener("dragenter", (event) => {
      event.preventDefault();
      depth++;
      $("dropzone").hidden = false;
    });
    window.addEventListener("dragleave", () => ($("dropzone").hidden = --depth <= 0));
    window.addEventListener("dragover", (event) => event.preventDefault());
    window.addEventListener("drop", (event) => {
      event.preventDefault();
      depth = 0;
      $("dropzone").hidden = true;
      void this.open([...(event.dataTransfer?.files ?? [])]);
    });
    let width = innerWidth;
    new ResizeObserver(() => {
      if (this.recording.linkNames.length > 0) this.picture.resize();
      this.charts.resize();
      this.dirty = true;
    }).observe($("charts"));
    if (width < 1080) $("composer").querySelector("details")!.open = false;
    window.addEventListener("pagehide", () => {
      this.session.stop();
      for (const session of this.runningSeeds) session.stop();
    });
    window.addEventListener("pageshow", (event) => {
      if (event.persisted) this.start();
    });
    document.addEventListener("visibilitychange", () => (this.lastFrame = performance.now()));
  }

  private recolour(): void {
    forget();
    if (this.recording.flowNames.length === 0) return;
    if (this.opened && !this.coming) this.dress();
    this.showLegend();
    this.composer?.show(this.scenario);
    delete this.shares.dataset["for"];
    if (this.finished) this.showFigures(JSON.parse(this.finished.result) as Result);
  }

  private async share(): Promise<void> {
    await this.writeAddress();
    await this.toClipboard(location.href, $("share"));
    if (location.protocol === "file:") this.say("This address opens on this computer only, since the page is a file here. Send the page and the YAML below instead.", "neutral");
  }

  private async toClipboard(text: string, button: HTMLElement): Promise<void> {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed: select and copy";
      if (button.id === "share") button.textContent = "Copy it from the address bar";
    }
    setTimeout(() => (button.textContent = label), 1600);
  }

  /** What tests ask. */
  state(): Record<string, unknown> {
    return {
      timeS: this.timeS, playing: this.playing, done: this.recording.done, nowS: this.recording.nowS, digest: this.finished?.digest ?? null,
      scenario: this.scenario, yaml: document_.yaml(this.scenario), figures: this.figures, kept: this.kept !== null, flows: this.recording.flowNames,
    };
  }
}

/** Returns the scheme that a policy artifact is for; null if the file is none. */
function schemeOf(file: Uint8Array): string | null {
  if (file.length < 9) return null;
  const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  if (length > file.length - 8 || length > 8e6) return null;
  try {
    const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length))) as { __metadata__?: { spec?: string } };
    const name: unknown = (JSON.parse(header.__metadata__?.spec ?? "{}") as { name?: unknown }).name;
    return typeof name === "string" ? name : null;
  } catch {
    return null;
  }
}

/** Returns the link before (-1) or after (1) a link on the first path that has one; empty if none has. */
function beside({ paths, links }: Opened, link: number, step: -1 | 1): string {
  const path = paths.find((one) => one.includes(link) && one[one.indexOf(link) + step] !== undefined);
  const name = path ? links[path[path.indexOf(link) + step]!]! : "";
  return name.length > 10 ? `${name.slice(0, 9)}…` : name;
}

/** Returns which queues a discipline keeps apart, in words. */
function apart(discipline: string): string {
  return /^(s?fq|cake|drr|wfq)/.test(discipline) ? "a queue per flow, in order of arrival" : "";
}

function keep(values: number[], value: number): void {
  values.push(value);
  if (values.length > 2000) values.shift();
}

function element<K extends keyof HTMLElementTagNameMap>(tag: K, text: string): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.textContent = text;
  if (tag === "button") made.setAttribute("type", "button");
  return made;
}

const code = (text: string): HTMLElement => element("code", text);
const head = (figure: Figure): string => (figure.unit ? `${figure.title} (${figure.unit})` : figure.title);

function colourful(name: string, flow: number): HTMLElement {
  const cell = document.createElement("span");
  const mark = document.createElement("i");
  mark.style.background = flowColour(flow);
  cell.append(mark, name);
  return cell;
}

function table(heads: string[], rows: (string | HTMLElement)[][], words: number): HTMLTableElement {
  const made = document.createElement("table");
  const top = made.createTHead().insertRow();
  heads.forEach((text, index) => {
    const cell = top.appendChild(element("th", text));
    cell.scope = "col";
    if (index < words) cell.className = "words";
  });
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((value, index) => {
      const cell = line.insertCell();
      cell.dataset["label"] = heads[index]!;
      if (index < words) cell.className = "words";
      const inner = typeof value === "string" ? element("span", value) : value;
      cell.append(inner);
    });
  }
  return made;
}

/** Makes a row of buttons of which one is chosen, by a click or the arrow keys. */
function radios(place: HTMLElement, labels: string[], chosen: string, role: string, choose: (label: string) => void): void {
  const state = role === "tab" ? "aria-selected" : "aria-checked";
  const buttons = labels.map((label) => {
    const button = element("button", label);
    button.setAttribute("role", role);
    button.addEventListener("click", () => pick(label));
    return button;
  });
  const pick = (label: string): void => {
    for (const button of buttons) {
      button.setAttribute(state, String(button.textContent === label));
      button.tabIndex = button.textContent === label ? 0 : -1;
    }
    choose(label);
  };
  place.append(...buttons);
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const now = buttons.findIndex((button) => button.tabIndex === 0);
    const next = buttons[(now + step + buttons.length) % buttons.length]!;
    next.focus();
    pick(next.textContent!);
  });
  for (const button of buttons) {
    button.setAttribute(state, String(button.textContent === chosen));
    button.tabIndex = button.textContent === chosen ? 0 : -1;
  }
}

// The place of a slider, 0 to 1000, and the value there.
function placeOf(turnable: Turnable, value: number): number {
  const { min, max, log } = turnable;
  const bounded = Math.min(Math.max(value, min), max);
  return Math.round(1000 * (log ? Math.log(bounded / min) / Math.log(max / min) : (bounded - min) / (max - min)));
}

function valueOf(turnable: Turnable, place: number): number {
  const { min, max, log, step } = turnable;
  const raw = log ? min * (max / min) ** (place / 1000) : min + ((max - min) * place) / 1000;
  const grain = log && raw >= 20 && step < 1 ? 1 : step;
  return Math.round(Math.round(raw / grain) * grain * 1000) / 1000;
}

/** Returns the value after `by` steps of the keyboard. */
function moved(turnable: Turnable, now: number, by: number): number {
  const { min, max, log, step } = turnable;
  const grain = log && now >= 20 && step < 1 ? 1 : step;
  const jump = log ? Math.max(grain, now * 0.05) : Math.max(grain, (max - min) / 100);
  const value = Math.min(Math.max(now + by * jump, min), max);
  return Math.round(Math.round(value / grain) * grain * 1000) / 1000;
}

const page = new Page();
Object.assign(window, { ccarena: { state: () => page.state(), frames: page.frames } });
void page.begin().catch((error: unknown) => page.say(error));
