// The page of one cell, which the address names: cell.html#PLACE-ENTRANT.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    element.append(...(Array.isArray(text) ? text : [text]));
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const over = document.getElementById("over-time-of-cell");
  const runs = document.getElementById("runs-of-cell");

  const again = document.getElementById("again-of-cell");

  // A file beside the page can be loaded as a script, not fetched.
  const script = (src) => new Promise((done, failed) => {
    const script = make("script", "", { src });
    script.addEventListener("load", done);
    script.addEventListener("error", failed);
    document.head.append(script);
  });
  const load = async (place) => { if (!window.ccarenaPlaces?.[place]) await script(`data/place-${place}.js`); };

  // Offers to repeat the cell's runs, or says why a browser cannot.
  async function offer(place, entrant) {
    if (!again) return;
    again.replaceChildren();
    try {
      if (!window.ccarenaRuns?.[place]) await script(`data/runs-${place}.js`);
      if (typeof window.ccarenaRuns[place] === "string") window.ccarenaRuns[place] = await window.ccarena.unpacked(window.ccarenaRuns[place]);
    } catch {
      again.replaceChildren(make("p", "The scenarios of these runs are missing; make the pages again."));
      return;
    }
    const data = window.ccarenaRuns[place];
    Object.assign((window.ccarenaFiles ??= {}), data.files);
    const mine = data.runs[entrant] ?? [];
    if (mine.length) {
      const missing = (name) => script(`data/file-${data.scripts[name]}.js`);
      window.ccarena.runnable(again, { axes: data.axes, runs: mine }, missing);
    } else again.replaceChildren(make("p", `These runs cannot be repeated in a browser: ${data.refused[entrant] ?? "none is valid"}.`));
  }

  async function show() {
    const [, place, entrant] = /^#(\d+)-(\d+)$/.exec(location.hash) ?? [];
    try {
      if (!place) throw new Error();
      await load(place);
      await window.ccarena.drawn;
    } catch {
      over.replaceChildren(make("p", "No such cell. The table of all cells has them."));
      runs.replaceChildren();
      again?.replaceChildren();
      return;
    }
    const data = window.ccarenaPlaces[place];
    const label = data.label[entrant] ?? "";
    document.querySelector("h1").textContent = `${label} on ${data.name}`;
    document.title = `${label} on ${data.name} · ccarena`;
    if (data.parts.length) {
      const parts = data.parts.map((part) => ({
        ...part,
        traces: part.traces.map((trace) => ({
          ...trace, visible: trace.name === "capacity" || trace.name === label ? true : "legendonly",
        })),
      }));
      window.ccarena.addFigure(over, { label: `${label} on ${data.name}`, caption: "Grey is the capacity.", parts });
    } else over.replaceChildren(make("p", "Nothing was kept over time."));
    const head = make("tr", data.head.map((title, at) => make("th", title, at < 2 ? { scope: "col", class: "words" } : { scope: "col" })));
    const body = (data.runs[entrant] ?? []).map((row) =>
      make("tr", row.map((value, at) => make("td", make("span", String(value ?? "")), { "data-label": data.head[at], ...(at < 2 ? { class: "words" } : {}) }))));
    const table = make("table", [make("thead", head), make("tbody", body)]);
    runs.replaceChildren(make("div", table, { class: "scroll", tabindex: "0", role: "region", "aria-label": "runs" }));
    await offer(place, entrant);
  }
  addEventListener("hashchange", show);
  show();
});
