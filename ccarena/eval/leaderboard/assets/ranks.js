// The table of ranks: a group of traces, a score or the reader's own weights, with or without baselines.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("ranks-of-board");
  const data = window.ccarenaRanks;
  if (!box || !data) return;
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    element.append(...(Array.isArray(text) ? text : [text]));
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const OWN = "own";
  const chooser = (id, label, options) => {
    const select = make("select", options.map(([value, text]) => make("option", text, { value })), { id, autocomplete: "off" });
    return [make("span", [make("label", label, { for: id }), select]), select];
  };
  const [groupPair, group] = chooser("ranks-group", "Traces", data.groups.map((each, at) => [at, each.name]));
  const [scorePair, score] = chooser("ranks-score", "Score",
    [...data.scores.map((each) => [each.name, each.title]), [OWN, "your own weights"]]);
  const baselines = make("input", "", { type: "checkbox", id: "ranks-baselines", autocomplete: "off" });
  const weights = ["Throughput", "Delay", "Sharing with CUBIC"].map((name, at) => {
    const value = at < 2 ? 1 : 0;
    const slider = make("input", "", { type: "range", min: 0, max: 4, step: 0.25, value, id: `weight-${at}`, autocomplete: "off" });
    return { slider, shown: make("output", String(value), { for: `weight-${at}` }), label: make("label", name, { for: `weight-${at}` }) };
  });
  const sliders = make("div", weights.flatMap(({ label, slider, shown }) => [make("div", [label, slider, shown], { class: "weight" })]),
    { class: "weights", role: "group", "aria-label": "your own weights" });
  const about = make("p", "");
  const said = make("p", "", { role: "status" });
  const tables = make("div", "");
  box.append(make("div", [groupPair, scorePair,
    make("label", [baselines, " baselines, rules and oracles"], { for: "ranks-baselines" })], { class: "chooser" }),
  about, sliders, said, tables);

  // The score with the reader's weights: utilisation, base RTT over mean RTT, and sharing, each to the power of its weight.
  function own(parts) {
    let sum = 0;
    for (const [at, { slider }] of weights.entries()) {
      const weight = Number(slider.value);
      if (weight > 0) sum = parts[at] === null ? NaN : sum + weight * parts[at];
    }
    return Math.exp(sum);
  }

  // Kendall's tau-b of two lists of scores.
  function tau(one, other) {
    let both = 0, first = 0, second = 0;
    for (let i = 0; i < one.length; i += 1) {
      for (let j = i + 1; j < one.length; j += 1) {
        const x = Math.sign(one[i] - one[j]), y = Math.sign(other[i] - other[j]);
        both += x * y;
        first += x * x;
        second += y * y;
      }
    }
    return first && second ? both / Math.sqrt(first * second) : NaN;
  }

  // The rows of a track, best first: with ranks, then without, then baselines.
  function ordered(rows, track) {
    const part = (row) => (data.entrants[row.entrant].baseline ? 2 : row.rank ? 0 : 1);
    return rows
      .filter((row) => data.entrants[row.entrant].track === track || data.entrants[row.entrant].track === data.oracle)
      .filter((row) => baselines.checked || !data.entrants[row.entrant].baseline)
      .map((row, at) => ({ row, at }))
      .sort((a, b) => part(a.row) - part(b.row) || b.row.score - a.row.score || a.at - b.at)
      .map(({ row }) => row);
  }

  function weighed(here) {
    return here.rows[data.scores[0].name].map((row) => ({ ...row, score: own(here.parts[row.entrant] ?? [null, null, null]) }))
      .filter((row) => Number.isFinite(row.score));
  }

  function table(track, rows, mine) {
    const figures = (row) => data.groups[group.value].figures[row.entrant] ?? [];
    const known = data.figures.map((_, k) => k).filter((k) => rows.some((row) => typeof figures(row)[k] === "number"));
    const head = ["Rank", "Entrant", mine ? "Score" : "Score [95 %]", ...known.map((k) => data.figures[k]), "No rank because"];
    const why = rows.some((row) => row.why);
    const titles = why ? head : head.slice(0, -1);
    let before = null;
    const body = rows.map((row, at) => {
      const who = data.entrants[row.entrant];
      const rank = mine ? (row.rank ? String(at + 1) : "–") : row.places;
      const link = make("a", who.name, { href: `entrant/${row.entrant}.html` });
      const interval = mine ? row.score.toFixed(3) : row.interval;
      const texts = [rank, [link], interval, ...known.map((k) => figures(row)[k]?.toFixed(data.digits[k]) ?? ""), row.why];
      const repeats = rank === before;
      const cells = titles.map((title, k) => {
        const kind = [...(k < 2 || title === head.at(-1) ? ["words"] : []), ...(k === 0 && repeats ? ["repeats"] : [])];
        const note = k === 1 && who.detail ? [make("small", who.detail)] : [];
        return make("td", [make("span", texts[k] ?? ""), ...note], { "data-label": title, ...(kind.length ? { class: kind.join(" ") } : {}) });
      });
      const line = make("tr", cells, !repeats && before !== null && !mine ? { class: "rule" } : {});
      before = rank;
      return line;
    });
    const row = make("tr", titles.map((title, k) =>
      make("th", title, { scope: "col", ...(k < 2 || title === head.at(-1) ? { class: "words" } : {}) })));
    const whole = make("table", [make("thead", row), make("tbody", body)]);
    return make("div", whole, { class: "scroll", tabindex: "0", role: "region", "aria-label": `ranks, ${track}` });
  }

  function show() {
    const here = data.groups[group.value];
    const mine = score.value === OWN;
    sliders.hidden = !mine;
    weights.forEach(({ slider, shown }) => { shown.value = slider.value; });
    const chosen = data.scores.find((each) => each.name === score.value);
    about.textContent = mine ? "Each part of the score counts as often as its weight says; 1, 1 and 0 is power. "
      + "A part is a geometric mean over links. Differences are not tested." : chosen.definition;
    const rows = mine ? weighed(here) : here.rows[score.value] ?? [];
    const first = new Map(here.rows[data.scores[0].name].map((row) => [row.entrant, row.score]));
    const sentences = [];
    const parts = [];
    for (const track of data.tracks) {
      const listed = ordered(rows, track);
      if (!listed.some((row) => data.entrants[row.entrant].track === track)) continue;
      parts.push(make("h3", track), table(track, listed, mine));
      const seen = mine ? "" : here.visible[score.value]?.[track] ?? "";
      if (seen) parts.push(make("p", seen));
      const ranked = listed.filter((row) => row.rank && first.has(row.entrant));
      const places = (of) => new Map([...ranked].sort((a, b) => of(b) - of(a)).map((row, at) => [row.entrant, at]));
      const now = places((row) => row.score), then = places((row) => first.get(row.entrant));
      const moved = ranked.filter((row) => now.get(row.entrant) !== then.get(row.entrant)).length;
      if (score.value !== data.scores[0].name && ranked.length > 1) {
        const value = tau(ranked.map((row) => row.score), ranked.map((row) => first.get(row.entrant)));
        const text = Number.isFinite(value) ? `; Kendall's tau with the default order is ${value.toFixed(2)}` : "";
        sentences.push(moved ? `${track}: ${moved} of ${ranked.length} entrants change places${text}.`
          : `${track}: the order is the same as by the default score.`);
      }
    }
    said.textContent = sentences.join(" ");
    said.hidden = !sentences.length;
    tables.replaceChildren(...(parts.length ? parts : [make("p", "No entrant has this score on these traces.")]));
  }
  for (const each of [group, score, baselines]) each.addEventListener("change", show);
  for (const { slider } of weights) slider.addEventListener("input", show);
  show();
});
