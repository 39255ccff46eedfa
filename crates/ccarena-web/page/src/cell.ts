// cell.js: one scenario in a page of somebody else's, run by a button.
//
// How a page uses it:
//
//     <script src="cell.js" defer></script>       with engine.js (the simulator) in the same folder
//     <div data-ccarena-scenario="..."            the scenario, YAML or JSON
//          data-ccarena-title="..."               words before the button (optional)
//          data-ccarena-seed="3"                  a seed in place of the scenario's (optional)
//          data-ccarena-stored="..."              JSON: figures to compare with, of each flow by its name (optional):
//                                                 {"cubic": {"goodput_mbps": 46.25, "queueing_delay_p95_ms": 19.75}}
//          data-ccarena-digest="..."              SHA-256 of the stored result (optional)
//          data-ccarena-files="..."               JSON: traces and policies by the names that the scenario uses, base64
//                                                 (optional)
//     ></div>
//
// A script does the same with `ccarenaCell.show(element, {scenario, title, seed, stored, digest, files})`, where `files` is
// a Map of Uint8Array. It returns a promise of {digest, figures} with the first run that ends.
//
// engine.js is loaded when the first button is pressed, by a script element, which works from file:// too. A page that has
// the simulator elsewhere sets `data-engine="PATH/engine.js"` on the script element of cell.js, or, to be one file, puts
// the contents of engine.js into a script element of its own. Figures have the names of docs/figures.md; `loss_share` is a
// share here, as there. Figures that this page cannot compute are shown as stored only.

import { Charts, KINDS } from "./charts";
import { bytes } from "./embedded";
import { type Figures, type Result } from "./figures";
import { flowColour, forget, within } from "./palette";
import { Recording } from "./recording";
import { equip, Fault, Session } from "./session";
import { figures } from "./figures";

declare const WORKER: string;
declare const STYLE: string;
declare global {
  var ccarenaEngine: string | undefined;
  var ccarenaCell: { show: typeof show } | undefined;
}

export interface Cell {
  scenario: string;
  title?: string;
  seed?: number;
  stored?: Record<string, Record<string, number>>;
  digest?: string;
  files?: Map<string, Uint8Array>;
}

const script = document.currentScript as HTMLScriptElement | null;
const address = script?.dataset["engine"] ?? (script?.src ? new URL("engine.js", script.src).href : "engine.js");
const MOST_PACKETS = 1e6;
/** Largest relative difference of two figures that are the same: stored ones are rounded to six digits or more. */
const SAME = 1e-5;
/** Largest difference of two that are the same, whatever their size: a page computes delays from times in seconds. */
const SAME_NEAR_ZERO = 1e-9;

async function engine(): Promise<ArrayBuffer> {
  if (globalThis.ccarenaEngine === undefined) {
    await new Promise<void>((done, failed) => {
      const element = document.head.appendChild(document.createElement("script"));
      element.src = address;
      element.onload = () => done();
      element.onerror = () => failed(new Fault(`the simulator is not there: expected ${address}, which \`make web\` writes beside cell.js`));
    });
  }
  return new Response(new Blob([bytes(globalThis.ccarenaEngine ?? "")]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

equip(() => WORKER, engine);

function made<K extends keyof HTMLElementTagNameMap>(tag: K, kind = "", text = ""): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (text) element.textContent = text;
  return element;
}

/** Sessions of cells that are shown. */
const sessions = new WeakMap<HTMLElement, Session>();
/** Draws the charts of every cell again, in the colours that the theme has now. */
const repaint = new Set<() => void>();

function watchTheme(): void {
  const changed = (): void => repaint.forEach((draw) => draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  for (const element of [document.documentElement, document.body]) new MutationObserver(changed).observe(element, { attributeFilter: ["data-theme"] });
}

/** Shows a cell in `place`, instead of the one there; the promise has the first run that ends. */
export function show(place: HTMLElement, cell: Cell): Promise<{ digest: string; figures: Figures }> {
  if (!document.getElementById("ccarena-cell-style")) {
    const style = document.head.appendChild(made("style"));
    style.id = "ccarena-cell-style";
    style.textContent = STYLE;
    watchTheme();
  }
  place.classList.add("ccarena-cell");
  const head = made("div", "cell-head");
  const button = made("button", "run", "Run it here");
  button.type = "button";
  head.append(made("span", "cell-title", cell.title ?? "This scenario"), button);
  const charts = made("div", "cell-charts");
  const legend = made("div", "cell-legend");
  const numbers = made("div", "cell-scroll");
  const status = made("p", "cell-status");
  status.setAttribute("role", "status");
  place.replaceChildren(head, charts, legend, numbers, status);
  sessions.get(place)?.stop();
  const session = new Session();
  sessions.set(place, session);
  let running = false;
  let draw: (() => void) | null = null;

  const stop = (words: string, bad = false): void => {
    running = false;
    button.textContent = "Run it here";
    status.textContent = words;
    status.classList.toggle("bad", bad);
  };

  return new Promise((done) => {
    button.addEventListener("click", () => {
      if (running) {
        session.stop();
        stop("Cancelled.");
        return;
      }
      running = true;
      button.textContent = "Cancel";
      status.classList.remove("bad");
      status.textContent = "Loading the simulator…";
      let recording = new Recording([], []);
      let drawing: Charts | null = null;
      let paths: number[][] = [];
      let baseRttsMs: number[] = [];
      let durationS = 1;
      session.run({ scenario: cell.scenario, files: cell.files ?? new Map(), packets: MOST_PACKETS, ...(cell.seed === undefined ? {} : { seed: cell.seed }) }, {
        opened: (news) => {
          recording = new Recording(news.flows, news.links);
          ({ paths, baseRttsMs, durationS } = news);
          if (draw) repaint.delete(draw);
          draw = () => {
            if (!place.isConnected || !numbers.isConnected) {
              repaint.delete(draw!);
              return;
            }
            within(place);
            forget();
            charts.replaceChildren();
            drawing = new Charts(charts, () => undefined, KINDS.slice(0, 3), 130);
            drawing.shape(recording, null, durationS, () => -1);
            drawing.draw(recording.nowS, performance.now() + 1000);
            legend.replaceChildren(...news.flows.slice(0, 20).map((name, flow) => {
              const entry = made("span");
              const mark = made("i");
              mark.style.background = flowColour(flow);
              entry.append(mark, name);
              return entry;
            }));
          };
          repaint.add(draw);
          draw();
        },
        update: (news) => {
          recording.append(news.update);
          status.textContent = `${recording.nowS.toFixed(1)} of ${durationS} s`;
          drawing?.draw(recording.nowS, performance.now() + 8);
        },
        finished: (news) => {
          drawing?.draw(durationS, performance.now() + 1000);
          const result = JSON.parse(news.result) as Result;
          const found = figures(result, recording, paths, baseRttsMs);
          const compared = table(result, found, cell.stored ?? {});
          numbers.replaceChildren(compared.table);
          // A part that scrolls can be reached by the keyboard.
          for (const [name, value] of Object.entries({ tabindex: "0", role: "region", "aria-label": "figures" })) numbers.setAttribute(name, value);
          const same = cell.digest === undefined ? "" : cell.digest === news.digest ? " It is the stored result, byte for byte." : ` The stored result has another digest: ${cell.digest}.`;
          stop(`${compared.said}Simulated in ${(news.tookMs / 1000).toFixed(2)} s. Digest of the result (SHA-256): ${news.digest}.${same}`, compared.differ || (cell.digest !== undefined && cell.digest !== news.digest));
          done({ digest: news.digest, figures: found });
        },
        failed: (fault) => stop(fault.message, true),
      });
    });
  });
}

/** Returns the table of figures, and what it says in a sentence; of stored figures it has those that are computed here. */
function table(result: Result, found: Figures, stored: Record<string, Record<string, number>>): { table: HTMLTableElement; said: string; differ: boolean } {
  const compared = Object.keys(stored).length > 0;
  const element = made("table");
  const head = element.createTHead().insertRow();
  const several = result.flows.length > 1;
  for (const text of [...(several ? ["flow"] : []), ...(compared ? ["figure", "stored", "here", ""] : ["figure", "here"])]) {
    const cell = head.appendChild(made("th", text === "flow" || text === "figure" ? "words" : "", text));
    cell.scope = "col";
  }
  const body = element.createTBody();
  const missing = new Set<string>();
  let [equal, other] = [0, 0];
  const shown = (value: number | undefined): string => (value === undefined || !Number.isFinite(value) ? "–" : String(Number(value.toPrecision(7))));
  result.flows.forEach((flow, index) => {
    const here = { ...found.flows[index]! };
    if (here["loss_share"] !== undefined) here["loss_share"] /= 100;
    const kept = stored[flow.name] ?? {};
    // What a flow counts is in its result.
    const counted = flow as unknown as Record<string, unknown>;
    for (const name of Object.keys(kept)) if (typeof counted[name] === "number") here[name] ??= counted[name];
    for (const name of compared ? Object.keys(kept) : Object.keys(here)) {
      if (compared && !Number.isFinite(here[name])) {
        missing.add(name);
        continue;
      }
      const row = body.insertRow();
      const [before, now] = [kept[name], here[name]];
      row.dataset["figure"] = name;
      for (const text of several ? [flow.name, name] : [name]) row.appendChild(made("td", "words", text));
      for (const value of compared ? [before, now] : [now]) row.insertCell().textContent = shown(value);
      if (!compared) continue;
      const verdict = row.insertCell();
      if (before === undefined || now === undefined || !Number.isFinite(before)) continue;
      const difference = Math.abs(now - before) / Math.max(Math.abs(before), SAME_NEAR_ZERO);
      const same = Math.abs(now - before) <= Math.max(SAME * Math.abs(before), SAME_NEAR_ZERO);
      verdict.textContent = same ? "same" : `differs: ${now > before ? "+" : "−"}${(difference * 100).toPrecision(2)} %`;
      verdict.className = same ? "same" : "other";
      if (same) equal++;
      else other++;
    }
  });
  let said = "";
  if (equal + other > 0) said = other === 0 ? `All ${equal} compared figures are the stored ones. ` : `${other} of ${equal + other} compared figures differ from the stored ones. `;
  if (missing.size > 0) said += `Stored, but not computed in a page: ${[...missing].join(", ")}. `;
  return { table: element, said, differ: other > 0 };
}

function start(): void {
  for (const place of document.querySelectorAll<HTMLElement>("[data-ccarena-scenario]")) {
    const { ccarenaScenario: scenario, ccarenaTitle: title, ccarenaSeed: seed, ccarenaStored: stored, ccarenaDigest: digest, ccarenaFiles: given } = place.dataset;
    const files = new Map(Object.entries(JSON.parse(given || "{}") as Record<string, string>).map(([name, text]) => [name, bytes(text)]));
    void show(place, {
      scenario: scenario!, files, ...(title ? { title } : {}), ...(seed ? { seed: Number(seed) } : {}), ...(digest ? { digest } : {}),
      ...(stored ? { stored: JSON.parse(stored) as NonNullable<Cell["stored"]> } : {}),
    });
  }
}

globalThis.ccarenaCell = { show };
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
