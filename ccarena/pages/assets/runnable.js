// Runs that the reader repeats: selects that choose one, and cell.js (crates/ccarena-web/page), which runs it.
"use strict";
(() => {
  const make = (tag, text = "", attributes = {}) => {
    const element = document.createElement(tag);
    element.append(...(Array.isArray(text) ? text : [text]));
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const bytes = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const unpack = (base64) => new Response(new Blob([bytes(base64)]).stream().pipeThrough(new DecompressionStream("gzip")));

  // Shows the runs of `data` (pages/runnable.py: data_of) in `place`; `load` gets a file that the page does not have.
  function show(place, data, load = () => Promise.reject(new Error("the page lacks a file of this run"))) {
    const choices = new Map();
    data.axes.forEach((axis, at) => {
      const values = [...new Set(data.runs.map((run) => run.at[at]))];
      if (values.length < 2) return;
      const select = make("select", values.map((value) => make("option", value, { value })));
      select.addEventListener("change", () => choose(at));
      choices.set(at, select);
    });
    const bar = make("div", [...choices].map(([at, select]) => make("label", [`${data.axes[at]} `, select])), { class: "choices" });
    const cell = make("div");
    const note = make("p", "", { class: "run-note" });
    place.replaceChildren(...(choices.size ? [bar] : []), cell, note);

    // Not all values go together: the choice that was just made holds, and others follow it.
    function choose(last) {
      const agreement = (run) => [...choices].reduce((sum, [at, select]) => sum + (run.at[at] === select.value ? (at === last ? 100 : 1) : 0), 0);
      const run = data.runs.reduce((best, each) => (agreement(each) > agreement(best) ? each : best));
      for (const [at, select] of choices) select.value = run.at[at];
      void open(run);
    }

    async function open(run) {
      place.chosen = run;
      const title = data.axes.map((axis, at) => (axis === "seed" ? `seed ${run.at[at]}` : run.at[at])).filter(Boolean).join(", ");
      const said = [run.version && Object.keys(run.stored).length ? `The stored figures were made by ccarena ${run.version}.` : "", ...run.licences];
      note.textContent = said.filter(Boolean).join(" ");
      try {
        const files = new Map();
        for (const name of run.files) {
          if (window.ccarenaFiles?.[name] === undefined) await load(name);
          files.set(name, new Uint8Array(await unpack(window.ccarenaFiles[name]).arrayBuffer()));
        }
        if (place.chosen !== run) return;
        void window.ccarenaCell.show(cell, { scenario: run.scenario, title, stored: run.stored, files });
      } catch (error) {
        cell.replaceChildren(make("p", `This run cannot be repeated here: ${error.message}.`));
      }
    }
    choose(-1);
  }

  const ours = (window.ccarena ??= {});
  ours.runnable = show;
  ours.unpacked = (base64) => unpack(base64).json();
  for (const place of document.querySelectorAll(".runnable[data-runs]")) {
    void unpack(document.getElementById(place.dataset.runs).textContent).json().then((data) => show(place, data));
  }
})();
