// Grids: tables of which only the rows in sight are drawn, sorted by their headings, filtered by words and choices.
"use strict";
(() => {
  const ROW = 30;
  const SPARE = 8;
  const LONGEST = 90; // characters of a word; what is longer ends in dots, and is its title
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // Cells are numbers of `width` digits to the base 64 each, one after the other (ccarena/pages/grid.py).
  const VALUE = new Uint8Array(128);
  [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"].forEach((digit, value) => {
    VALUE[digit.charCodeAt(0)] = value;
  });
  const cellOf = ({ cells, width }, row) => {
    let value = 0;
    for (let at = row * width; at < (row + 1) * width; at += 1) value = value * 64 + VALUE[cells.charCodeAt(at)];
    return value;
  };
  // All of a column, read when it is first asked for.
  const allOf = (column, total) => {
    if (!column.all) {
      column.all = new Float64Array(total);
      column.largest = 0;
      for (let row = 0; row < total; row += 1) {
        const value = cellOf(column, row);
        column.all[row] = value;
        if (value > column.largest) column.largest = value;
      }
    }
    return column.all;
  };

  function grid(box, data) {
    const columns = data.columns;
    const total = data.rows;
    for (const column of columns) {
      if (column.values) column.lower = column.values.map((word) => word.toLowerCase());
    }
    let order = new Uint32Array(total);
    for (let row = 0; row < total; row += 1) order[row] = row;
    let shown = order;
    let sorted = { column: -1, down: false };
    let active = 0;

    const text = (column, value) => {
      if (column.values) return column.values[value];
      return value === 0 ? "" : ((column.low + value - 1) / column.scale).toFixed(column.digits);
    };

    // Wide enough for the longest word or number and its margins, and for the heading's longest word, in characters.
    const width = (column) => {
      const heading = Math.max(...column.title.split(" ").map((word) => word.length)) + 3;
      if (!column.values) return Math.max(heading, column.longest + 3);
      return Math.min(LONGEST, Math.max(heading, ...column.values.map((word) => word.length + 3)));
    };
    const template = columns.map((column) => `${width(column)}ch`).join(" ");

    const search = make("input", { type: "search", placeholder: "words", autocomplete: "off", spellcheck: "false" });
    const tools = make("div", { class: "grid-tools" }, make("label", {}, "Filter ", search));
    const choosers = [];
    columns.forEach((column, at) => {
      if (column.choose === undefined) return;
      const select = make("select", { autocomplete: "off" }, make("option", { value: "" }, "all"));
      const option = (word, value) => make("option", { value }, word);
      const first = column.values.indexOf(column.choose);
      if (first >= 0) select.append(option(column.choose, first));
      select.value = first >= 0 ? first : "";
      // The others once all is shown: many options take long.
      window.ccarena.shown.then(() => {
        const chosen = select.value;
        select.replaceChildren(select.options[0], ...column.values.map(option));
        select.value = chosen;
      });
      select.addEventListener("change", filter);
      choosers.push([at, select]);
      tools.append(make("label", {}, `${column.title} `, select));
    });
    const status = make("p", { class: "grid-status", role: "status" });
    tools.append(status);

    const headings = columns.map((column, at) => {
      const button = make("button", { type: "button", title: column.help ?? "" }, column.title, make("span", { "aria-hidden": "true" }));
      button.addEventListener("click", () => sort(at));
      return make("div", { role: "columnheader", "aria-colindex": at + 1, class: column.values ? "word" : "number" }, button);
    });
    const headRow = make("div", { role: "row", "aria-rowindex": 1, class: "grid-row" }, ...headings);
    const head = make("div", { role: "rowgroup", class: "grid-head" }, headRow);
    const body = make("div", { role: "rowgroup", class: "grid-rows" });
    const view = make("div", {
      role: "grid", class: "grid", "aria-label": box.dataset.label, "aria-colcount": columns.length, "aria-readonly": "true",
    }, head, body);
    view.style.setProperty("--columns", template);
    box.append(tools, view);

    const linkOf = (row) =>
      data.open && `${data.open.page}#${data.open.numbers.map((column) => cellOf(column, row)).join("-")}`;

    function cell(column, at, row) {
      const element = make("div", { role: "gridcell", "aria-colindex": at + 1, class: column.values ? "word" : "number" });
      const value = cellOf(column, row);
      const word = text(column, value);
      const link = column.links?.[value] || (at === 0 && linkOf(row));
      if (link) element.append(make("a", { href: link, tabindex: "-1" }, word));
      else element.textContent = word;
      if (word.length > LONGEST - 3) element.title = word;
      return element;
    }

    let first = -1;
    let last = -1;
    function draw(force) {
      const height = view.clientHeight || 600;
      const from = Math.max(0, Math.floor(view.scrollTop / ROW) - SPARE);
      const to = Math.min(shown.length, Math.ceil((view.scrollTop + height) / ROW) + SPARE);
      if (!force && from === first && to === last) return;
      [first, last] = [from, to];
      const focused = body.contains(document.activeElement);
      const rows = [];
      for (let k = from; k < to; k += 1) {
        const row = make("div", { role: "row", "aria-rowindex": k + 2, class: "grid-row", tabindex: k === active ? "0" : "-1" });
        row.style.top = `${k * ROW}px`;
        row.dataset.at = k;
        columns.forEach((column, at) => row.append(cell(column, at, shown[k])));
        rows.push(row);
      }
      body.replaceChildren(...rows);
      if (focused) body.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
    }

    // At first the browser has yet to lay out the page, and says so to the observer below.
    let laidOut = false;
    function refresh() {
      body.style.height = `${shown.length * ROW}px`;
      view.setAttribute("aria-rowcount", shown.length + 1);
      const all = total.toLocaleString("en");
      status.textContent = shown.length === total ? `${all} rows` : `${shown.length.toLocaleString("en")} of ${all} rows`;
      active = 0;
      if (!laidOut) return;
      view.scrollTop = 0;
      draw(true);
    }

    function filter() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = choosers.filter(([, select]) => select.value !== "").map(([at, select]) => [allOf(columns[at], total), Number(select.value)]);
      const texts = columns.filter((column) => column.values);
      // Which words of a column match is found once for each different word.
      const matches = words.map((word) => texts.map((column) => column.lower.map((own) => own.includes(word))));
      const cells = words.length ? texts.map((column) => allOf(column, total)) : [];
      shown = order;
      for (const [at, value] of wanted) shown = shown.filter((row) => at[row] === value);
      for (const of of matches) shown = shown.filter((row) => cells.some((at, k) => of[k][at[row]]));
      refresh();
    }

    // By what the rows of a column are sorted, from 1; what is unknown is 0.
    function keysOf(column) {
      const all = allOf(column, total);
      if (!column.values) return { keys: all, largest: column.largest };
      if (!column.keys) {
        const words = column.values.map((_, at) => at).sort((a, b) => column.values[a].localeCompare(column.values[b]));
        const place = new Float64Array(words.length);
        words.forEach((at, k) => { place[at] = k + 1; });
        column.keys = all.map((at) => place[at]);
      }
      return { keys: column.keys, largest: column.values.length };
    }

    // Rows by a column, those of one value in their first order, what is unknown last. A number and its row are packed
    // into one number, because numbers are sorted ten times as fast without a function that compares them.
    function ordered(column, turned) {
      const { keys, largest } = keysOf(column);
      const scale = 2 ** Math.ceil(Math.log2(total + 1));
      if (scale * (largest + 2) > Number.MAX_SAFE_INTEGER) {
        const above = (row) => (keys[row] === 0 ? Infinity : turned ? -keys[row] : keys[row]);
        return Uint32Array.from(order, (_, row) => row).sort((a, b) => Math.sign(above(a) - above(b)) || a - b);
      }
      const packed = new Float64Array(total);
      for (let row = 0; row < total; row += 1) {
        packed[row] = (keys[row] === 0 || turned ? largest + 1 - keys[row] : keys[row]) * scale + row;
      }
      packed.sort();
      return Uint32Array.from(packed, (each) => each % scale);
    }

    function sort(at) {
      const numbers = !columns[at].values;
      // Numbers begin with the largest, words with the first.
      const turned = sorted.column === at ? !sorted.down : numbers;
      order = ordered(columns[at], turned);
      mark(at, turned);
      filter();
    }

    function mark(at, down) {
      sorted = { column: at, down };
      headings.forEach((heading, k) => {
        heading.setAttribute("aria-sort", k === at ? (sorted.down ? "descending" : "ascending") : "none");
        heading.querySelector("span").textContent = k === at ? (sorted.down ? " ▼" : " ▲") : "";
      });
    }

    view.addEventListener("scroll", () => requestAnimationFrame(() => draw(false)), { passive: true });
    search.addEventListener("input", filter);
    view.addEventListener("keydown", (event) => {
      if (!body.contains(event.target)) {
        if (event.key !== "ArrowDown" || !shown.length) return;
        event.preventDefault();
        body.querySelector('[tabindex="0"]')?.focus();
        return;
      }
      const page = Math.max(1, Math.floor((view.clientHeight - ROW) / ROW) - 1);
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
      if (event.key === "Enter") {
        const link = event.target.closest(".grid-row")?.querySelector("a");
        if (link && event.target !== link) link.click();
        return;
      }
      if (!(event.key in steps)) return;
      event.preventDefault();
      active = Math.min(shown.length - 1, Math.max(0, active + steps[event.key]));
      const visible = view.clientHeight - head.offsetHeight;
      if (active * ROW < view.scrollTop) view.scrollTop = active * ROW;
      else if ((active + 1) * ROW > view.scrollTop + visible) view.scrollTop = (active + 1) * ROW - visible;
      draw(true);
      body.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
    });
    body.addEventListener("focusin", (event) => {
      const row = event.target.closest(".grid-row");
      if (!row || Number(row.dataset.at) === active) return;
      body.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
      active = Number(row.dataset.at);
      row.setAttribute("tabindex", "0");
    });
    new ResizeObserver(() => { laidOut = true; draw(true); }).observe(view);

    // Rows come in the order that `sort` names.
    const at = columns.findIndex((column) => column.title === data.sort.replace(/^-/, ""));
    if (at >= 0) mark(at, data.sort.startsWith("-"));
    filter();
  }

  for (const box of document.querySelectorAll(".grid-box")) {
    const own = box.querySelector(".grid-data");
    const data = own ? JSON.parse(own.textContent) : window.ccarenaGrids?.[box.dataset.grid];
    if (data) grid(box, data);
    else box.append(make("p", {}, "The rows of this table were not found beside the page."));
  }
})();
