// Checks `engine.ts` against the module: faults, series, packets, files, and what happens after a panic.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const [script, module] = process.argv.slice(2);
const { load, EngineError } = await import(script);
const engine = await load(readFileSync(module));
const SCENARIO = `
duration_s: 4
links: [{service: {type: constant, rate_mbps: 20}, queue: {type: droptail, bdp: 1}}]
flows: [{scheme: cubic}, {scheme: bbr, start_s: 1}]
`;
const refused = (of, pattern, path) =>
  assert.throws(of, (error) => {
    assert(error instanceof EngineError, error.stack);
    assert.match(error.message, pattern);
    assert.equal(error.path, path);
    return true;
  });

// Faults have a path and a sentence.
assert.deepEqual(engine.check(SCENARIO), []);
assert.deepEqual(engine.check(SCENARIO.replace("cubic", "cubik")), [
  { path: "flows[0].scheme", message: 'flows[0].scheme: unknown scheme "cubik"; did you mean "cubic"?' },
]);
refused(() => engine.open("a: ["), /^scenario, line 2, column 1: not valid YAML: /, undefined);
refused(() => engine.open(SCENARIO, undefined, { seed: -1 }), /expected a whole number from 0/, "seed");
await assert.rejects(load(new Uint8Array([0, 1, 2])), /the simulator cannot be loaded/);

// A run goes on in steps; views hold what it has so far.
const run = engine.open(SCENARIO, new Map(), { packets: true });
assert.deepEqual(run.advance(0), { nowS: 0, done: false, packets: 0 });
refused(() => run.result(), /^the run is at 0 s of 4 s; advance it to its end first$/, undefined);
run.advance(2);
assert.equal(run.series().time_s.length, 200);
const { done, nowS } = run.advance(1e9);
assert.deepEqual([done, nowS], [true, 4]);
const series = run.series();
assert.deepEqual([series.flows.length, series.links.length, series.time_s.length], [2, 1, 400]);
assert(Math.abs(series.time_s[399] - 4) < 1e-9);
for (const column of Object.values({ ...series.flows[1], ...series.links[0] })) assert.equal(column.length, 400);
const [link] = run.packets(3).links;
assert(link.departure_s.length > 1000 && link.departure_s[0] >= 3 && link.flow.every((flow) => flow === 0 || flow === 1));
const figures = JSON.parse(run.result());
assert.equal(figures.flows[0].scheme, "cubic");
assert.match(run.digest(), /^[0-9a-f]{64}$/);
run.free();
refused(() => run.advance(4), /the run was freed/, undefined);

// A DualPI2 has a queue for packets of L4S.
const both = engine.open("links: [{service: {type: constant, rate_mbps: 20}, queue: {type: dualpi2}}]\nflows: [{scheme: prague}, {scheme: cubic, ecn: true}]");
assert.deepEqual(both.l4s, [true, false]);
both.free();

// Two runs at a time do not mix.
const [one, two] = [engine.open(SCENARIO), engine.open(SCENARIO, undefined, { seed: 5 })];
one.advance(1);
two.advance(4);
one.advance(4);
assert.equal(one.digest() === two.digest(), one.result().replace('"seed":1', '"seed":5') === two.result());
one.free();

// Files come by name.
const traced = "links: [{service: {type: trace, file: home.trace}}]\nflows: [{scheme: reno}]\nduration_s: 1";
refused(() => engine.open(traced), /home\.trace: .*no file of this name was given; none was/, "links[0].service");
engine.open(traced, new Map([["home.trace", new TextEncoder().encode("1\n2\n")]])).free();

// Hostile sizes are refused, and a large file grows the memory, which moves its buffer.
refused(() => engine.open(`# ${"x".repeat(16e6)}`), /it has 16000002 bytes; expected at most 16000000/, undefined);
refused(() => engine.open("duration_s: 1e5\nlinks: [{service: {type: constant, rate_mbps: 9e4}}]\nflows: [{scheme: reno}]"),
  /the run asks for about .* packets/, "duration_s");
refused(() => engine.open(traced, new Map([["home.trace", new Uint8Array(257e6)]])), /it has 257000000 bytes/, "links[0].service");

// A panic says what happened. Runs of that instance are gone, and a new one works.
refused(() => engine.call((exports) => exports.reserve(2 ** 31)), /^the simulator stopped: .*capacity overflow/s, undefined);
refused(() => two.advance(4), /the run is gone, since the simulator was restarted; open it again/, undefined);
two.free();
const again = engine.open(SCENARIO);
again.advance(4);
assert.equal(JSON.parse(again.result()).flows.length, 2);
