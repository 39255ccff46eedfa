// Draws a page's charts in the colours of the theme, with one legend per figure, and works its buttons.
"use strict";
(() => {
  const root = document.documentElement;
  const DASHES = { dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "12 4" };
  const SYMBOLS = {
    circle: "●", square: "■", diamond: "◆", "triangle-up": "▲", "triangle-down": "▼", x: "✖", cross: "✚", star: "★",
    pentagon: "⬟", hexagon: "⬢", "circle-open": "○", "square-open": "□", "diamond-open": "◇",
  };
  let charts = [];
  let ready = false;

  const unpack = async (id) => {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };

  const literal = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

  // What the style sheet's variables are worth in a theme ("" for the one that the reader has chosen).
  function palette(theme) {
    const probe = document.body.appendChild(document.createElement("span"));
    probe.hidden = true;
    probe.style.colorScheme = theme;
    const known = {};
    const resolve = (name) => {
      probe.style.color = name;
      return (known[name] ??= getComputedStyle(probe).color);
    };
    const coloured = (value) => {
      // Plotly reads tags in texts; here every text is only a text.
      if (typeof value === "string") return value.startsWith("var(--") ? resolve(value) : literal(value);
      if (Array.isArray(value)) return value.map(coloured);
      if (value === null || typeof value !== "object") return value;
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
    };
    coloured.done = () => probe.remove();
    return coloured;
  }

  function dressed(chart, hidden, coloured, width, sameX) {
    const axis = (own) => ({
      automargin: true, gridcolor: "var(--grid)", linecolor: "var(--edge)", zeroline: false, showline: true,
      ticks: "outside", tickcolor: "var(--edge)", ticklen: 4, fixedrange: false, exponentformat: "none", ...own,
      title: { ...own.title, standoff: 8 },
    });
    const layout = {
      ...chart.layout, height: chart.height, autosize: true, showlegend: false, dragmode: "zoom",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", bargap: 0.25,
      margin: { l: width < 500 ? 46 : 58, r: 14, t: 10, b: 44 },
      font: { family: "system-ui, DejaVu Sans, sans-serif", size: width < 500 ? 11 : 12, color: "var(--ink)" },
      hoverlabel: { bgcolor: "var(--surface)", bordercolor: "var(--edge)", font: { color: "var(--ink)" }, namelength: -1 },
      xaxis: axis(chart.layout.xaxis), yaxis: axis(chart.layout.yaxis),
    };
    // Charts of one time stand below each other with the same ends, however long their labels are.
    if (sameX && chart.layout.yaxis.type !== "category") {
      layout.yaxis.automargin = false;
      layout.margin.l = width < 500 ? 62 : 70;
    }
    // Long names beside an axis would leave no room for the chart on a phone; names differ in their ends.
    const names = chart.layout.yaxis.type === "category" ? [...new Set(chart.traces.flatMap((trace) => trace.y))] : [];
    if (width < 500 && names.some((name) => name.length > 16)) {
      layout.yaxis.tickvals = names;
      layout.yaxis.ticktext = chart.short ?? names.map((name) => (name.length > 16 ? `…${name.slice(-15)}` : name));
    }
    const traces = chart.traces.map((trace) => ({ ...trace, visible: hidden.has(trace.name) ? false : true }));
    return coloured({ traces, layout });
  }

  const chartOf = (place) => charts[place.dataset.chart];
  const placesOf = (figure) => [...figure.querySelectorAll(".plot")];

  // A figure's series by name, each with the trace that its entry in the legend looks like.
  function seriesOf(figure) {
    const series = new Map();
    for (const place of placesOf(figure)) {
      for (const trace of chartOf(place).traces) {
        if (trace.name && trace.showlegend !== false && !series.has(trace.name)) series.set(trace.name, trace);
      }
    }
    return series;
  }

  const look = (trace) => ({
    line: (trace.mode ?? "").includes("lines") && !trace.fill && !trace.stackgroup,
    colour: trace.fill || trace.type === "bar" ? (trace.fillcolor ?? trace.marker.color) :
      (trace.line?.color ?? trace.marker.color),
    dash: DASHES[trace.line?.dash] ?? "",
    symbol: trace.fill || trace.stackgroup || trace.type === "bar" ? "■" : SYMBOLS[trace.marker?.symbol] ?? "",
  });

  function swatch(trace) {
    const { line, colour, dash, symbol } = look(trace);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", "26");
    svg.setAttribute("height", "12");
    svg.setAttribute("aria-hidden", "true");
    if (line) {
      const path = document.createElementNS(svg.namespaceURI, "line");
      for (const [key, value] of Object.entries({ x1: 0, x2: 26, y1: 6, y2: 6, "stroke-width": 2 })) {
        path.setAttribute(key, value);
      }
      path.style.stroke = colour;
      path.setAttribute("stroke-dasharray", dash);
      svg.append(path);
    }
    if (symbol) {
      const text = document.createElementNS(svg.namespaceURI, "text");
      for (const [key, value] of Object.entries({ x: 13, y: 10.5, "text-anchor": "middle", "font-size": 12 })) {
        text.setAttribute(key, value);
      }
      text.style.fill = colour;
      text.textContent = symbol;
      svg.append(text);
    }
    return svg;
  }

  function legend(figure) {
    const box = figure.querySelector(".legend");
    const series = seriesOf(figure);
    figure.hiddenSeries = new Set([...series].filter(([, t]) => t.visible === "legendonly").map(([name]) => name));
    if (series.size) {
      for (const [name, trace] of series) {
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-pressed", String(!figure.hiddenSeries.has(name)));
        button.append(swatch(trace), name);
        button.addEventListener("click", () => {
          const hide = !figure.hiddenSeries.delete(name);
          if (hide) figure.hiddenSeries.add(name);
          button.setAttribute("aria-pressed", String(!hide));
          placesOf(figure).forEach((place) => draw(place));
        });
        box.append(button);
      }
    }
    const save = document.createElement("button");
    save.type = "button";
    save.className = "save";
    save.textContent = "Save as SVG";
    save.addEventListener("click", async () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([await image(figure, 1000)], { type: "image/svg+xml" }));
      link.download = `${figure.getAttribute("aria-label").replace(/[^\w.-]+/g, "-")}.svg`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    box.append(save);
  }

  function draw(place) {
    const figure = place.closest("figure");
    const coloured = palette("");
    const { traces, layout } = dressed(chartOf(place), figure.hiddenSeries, coloured, place.clientWidth, "sameX" in figure.dataset);
    coloured.done();
    const zoomed = place.layout?.xaxis?.autorange === false && place.zoomed;
    if (zoomed) layout.xaxis.range = place.layout.xaxis.range;
    Plotly.react(place, traces, layout, { displayModeBar: false, responsive: true, doubleClick: "reset" });
    place.drawn = true;
    if (place.linked || !("sameX" in figure.dataset)) return;
    place.linked = true;
    place.on("plotly_relayout", (change) => {
      const range = change["xaxis.range"] ?? [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      const whole = change["xaxis.autorange"];
      if (figure.zooming || (!whole && range[0] === undefined)) return;
      figure.zooming = true;
      place.zoomed = !whole;
      const others = placesOf(figure).filter((other) => other !== place && other.drawn);
      const same = others.map((other) => {
        other.zoomed = !whole;
        return Plotly.relayout(other, whole ? { "xaxis.autorange": true } : { "xaxis.range": range });
      });
      Promise.all(same).finally(() => { figure.zooming = false; });
    });
  }

  // What is folded away or not chosen has no width yet and is drawn once it is seen.
  const seen = (place) => place.offsetParent !== null;
  const drawSome = (wanted) => {
    if (ready) [...document.querySelectorAll(".plot")].filter(wanted).forEach((place) => draw(place));
  };
  const drawNew = () => drawSome((place) => seen(place) && !place.drawn);
  // Of another theme; what is out of sight is drawn anew when it is seen.
  const redraw = () => {
    document.querySelectorAll(".plot").forEach((place) => { place.drawn = false; });
    drawNew();
  };

  // A figure with its title and legend as one SVG in the light theme.
  async function image(figure, width) {
    const coloured = palette("light");
    const ink = coloured("var(--ink)");
    const parts = [];
    const write = (x, y, text, more = "") =>
      parts.push(`<text x="${x}" y="${y}" fill="${ink}" font-size="13" ${more}>${literal(text)}</text>`);
    let y = 26;
    write(12, y, figure.getAttribute("aria-label"), 'font-weight="600"');
    const series = [...seriesOf(figure)].filter(([name]) => !figure.hiddenSeries.has(name));
    let x = 12;
    if (series.length) {
      y += 24;
      for (const [name, trace] of series) {
        const { line, colour, dash, symbol } = coloured(look(trace));
        const length = 40 + 7.4 * name.length;
        if (x > 12 && x + length > width) { x = 12; y += 20; }
        if (line) parts.push(`<line x1="${x}" x2="${x + 24}" y1="${y - 4}" y2="${y - 4}" stroke="${colour}"
          stroke-width="2" stroke-dasharray="${dash}"/>`);
        if (symbol) parts.push(`<text x="${x + 12}" y="${y}" text-anchor="middle" fill="${colour}">${symbol}</text>`);
        write(x + 30, y, name);
        x += length + 12;
      }
    }
    y += 14;
    const box = figure.querySelector(".charts");
    const columns = Number(/columns-(\d)/.exec(box.className)[1]);
    const places = placesOf(figure);
    for (let first = 0; first < places.length; first += columns) {
      let tallest = 0;
      for (const [column, place] of places.slice(first, first + columns).entries()) {
        const chart = chartOf(place);
        const left = (column * width) / columns;
        if (chart.title) write(left + width / columns / 2, y + 14, chart.title, 'text-anchor="middle" font-weight="600"');
        const { traces, layout } = dressed(chart, figure.hiddenSeries, coloured, width, "sameX" in figure.dataset);
        const size = { width: width / columns, height: chart.height };
        const svg = await Plotly.toImage({ data: traces, layout: { ...layout, ...size } },
          { format: "svg", ...size, imageDataOnly: true });
        parts.push(svg.replace("<svg ", `<svg x="${left}" y="${y + (chart.title ? 20 : 0)}" `));
        tallest = Math.max(tallest, chart.height + (chart.title ? 26 : 6));
      }
      y += tallest;
    }
    coloured.done();
    return `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${width}"
      height="${y}" viewBox="0 0 ${width} ${y}" font-family="system-ui, DejaVu Sans, sans-serif"><rect width="100%"
      height="100%" fill="#ffffff"/>${parts.join("")}</svg>`;
  }

  const kept = { get: () => { try { return localStorage.getItem("ccarena-theme"); } catch { return null; } },
    set: (theme) => { try { localStorage.setItem("ccarena-theme", theme); } catch { /* A file may have no storage. */ } } };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  if (kept.get()) root.dataset.theme = kept.get();
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    kept.set(root.dataset.theme);
    redraw();
  });
  dark.addEventListener("change", redraw);

  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "Copied";
    });
  }
  for (const choice of document.querySelectorAll(".choice")) {
    const select = choice.querySelector("select");
    const options = [...choice.children].filter((child) => child.classList.contains("option"));
    select.addEventListener("change", () => {
      options.forEach((option, at) => { option.hidden = at !== select.selectedIndex; });
      drawNew();
    });
  }
  document.addEventListener("toggle", drawNew, true);

  // The library that draws, packed into the page or beside it; loaded when there is something to draw.
  let loading;
  const library = () => (loading ??= (async () => {
    const packed = document.getElementById("plotly");
    const script = document.createElement("script");
    const loaded = new Promise((done, failed) => {
      script.addEventListener("load", done);
      script.addEventListener("error", () => failed(new Error(`not found: ${script.src}`)));
    });
    if (packed.dataset.file) script.src = packed.dataset.file;
    else script.textContent = await unpack("plotly");
    document.head.append(script);
    if (packed.dataset.file) await loaded;
    ready = true;
  })());

  // Text and tables are shown before charts: two frames after the page is loaded, or soon where it is out of sight.
  const shown = new Promise((done) => {
    const soon = () => {
      setTimeout(done, 200);
      requestAnimationFrame(() => requestAnimationFrame(done));
    };
    if (document.readyState === "complete") soon();
    else addEventListener("load", soon);
  });
  shown.then(() => performance.mark("shown"));

  async function start() {
    if (!document.getElementById("charts")) return;
    charts = JSON.parse(await unpack("charts"));
    document.querySelectorAll("figure").forEach((figure) => legend(figure));
    if (!charts.length) return;
    await shown;
    await library();
    drawNew();
  }
  // Adds a figure, as the page's own are, in the place of what stood in `parent`.
  function addFigure(parent, { label, caption, parts }) {
    const figure = document.createElement("figure");
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", label);
    figure.dataset.sameX = "";
    const box = { figcaption: caption, legend: "", "charts columns-1": "" };
    const [, , grid] = Object.entries(box).map(([name, text]) => {
      const element = figure.appendChild(document.createElement(name === "figcaption" ? name : "div"));
      if (name !== "figcaption") element.className = name;
      element.textContent = text;
      return element;
    });
    for (const part of parts) {
      const place = grid.appendChild(document.createElement("div")).appendChild(document.createElement("div"));
      place.parentElement.className = "chart";
      place.className = "plot";
      place.style.height = `${part.height}px`;
      place.dataset.chart = charts.push(part) - 1;
    }
    parent.replaceChildren(figure);
    legend(figure);
    library().then(drawNew);
  }

  // `shown` is done when text and tables are, `drawn` when all charts that are in sight are; `image(n, width)` gives figure n as SVG.
  window.ccarena = {
    shown,
    drawn: start(),
    addFigure,
    image: (number, width) => image(document.querySelectorAll("figure")[number], width),
  };
})();
