// Builds the page: `node build.mjs OUT` reads OUT/engine.wasm and writes OUT/play.html, OUT/cell.js and OUT/engine.js.
// Each is one file that needs no other from elsewhere; the same sources give the same bytes.

import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const HERE = import.meta.dirname;
const PACKAGE = join(HERE, "../../../ccarena");
const out = process.argv[2];
if (!out) throw new Error("usage: node build.mjs OUT, a folder with engine.wasm");

const bundle = async (entry, define = {}) => {
  const made = await build({
    entryPoints: [join(HERE, "src", entry)], bundle: true, minify: true, format: "iife", target: "es2022", write: false,
    define, legalComments: "inline", logLevel: "warning",
  });
  return made.outputFiles[0].text;
};
const read = (...path) => readFileSync(join(...path), "utf8");
const packed = (bytes) => gzipSync(bytes, { level: 9 }).toString("base64");
// Text in a script element ends at "</script", whatever is around it.
const inScript = (text) => text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
const json = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");
const named = (folder, ending) => readdirSync(folder).filter((name) => name.endsWith(ending)).sort();

const ORDER = ["bufferbloat", "cubic-bbr", "vegas-cubic", "acct", "l4s", "cellular", "hercules", "weights", "crowd"];
const found = named(join(HERE, "presets"), ".yaml").map((name) => basename(name, ".yaml"));
const order = [...ORDER, ...found.filter((name) => !ORDER.includes(name))];
const presets = Object.fromEntries(order.map((name) => [name, read(HERE, "presets", `${name}.yaml`)]));

const policies = {};
for (const room of readdirSync(PACKAGE).sort()) {
  const folder = join(PACKAGE, room, "policies");
  if (!existsSync(folder)) continue;
  for (const name of named(folder, ".safetensors")) policies[basename(name, ".safetensors")] = readFileSync(join(folder, name)).toString("base64");
}

const wasm = readFileSync(join(out, "engine.wasm"));
const worker = await bundle("worker.ts");
const colours = read(PACKAGE, "pages/assets/page.css");
const library = read(HERE, "node_modules/uplot/dist/uPlot.min.css");
const element = (id, type, text) => `<script type="${type}" id="${id}">${text}</script>\n`;
const data =
  element("presets-data", "application/json", json(presets)) +
  element("given", "application/json", "") +
  element("given-files", "application/json", "") +
  element("shipped", "application/gzip", packed(JSON.stringify(policies))) +
  element("engine", "application/gzip", packed(wasm));
const parts = {
  "/*STYLE*/": colours + library + read(HERE, "src/play.css"),
  "<!--DATA-->": data,
  "/*SCRIPT*/": inScript(await bundle("main.ts", { WORKER: JSON.stringify(worker) })),
};
const page = read(HERE, "src/play.html").replace(/\/\*STYLE\*\/|<!--DATA-->|\/\*SCRIPT\*\//g, (mark) => parts[mark]);
writeFileSync(join(out, "play.html"), page);

// Colours of cells in pages that do not have page.css: its first rule, for cells alone.
const own = colours.match(/:root \{([^}]*)\}/)[1].replace("color-scheme: light dark;", "");
const cell = await bundle("cell.ts", { WORKER: JSON.stringify(worker), STYLE: JSON.stringify(`.ccarena-cell{${own}}${library}${read(HERE, "src/cell.css")}`) });
writeFileSync(join(out, "cell.js"), cell);
writeFileSync(join(out, "engine.js"), `globalThis.ccarenaEngine="${packed(wasm)}";\n`);
for (const name of ["play.html", "cell.js", "engine.js"]) console.log(`${name}: ${(statSync(join(out, name)).size / 1000).toFixed(0)} kB`);
