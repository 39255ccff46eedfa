// Runs scenarios on the simulator for web pages. Arguments: the engine's script and module. Standard input is a JSON list of
// {scenario, files?: {name: base64}, seed?, steps?}; standard output a list of {digest, json} or {path?, message}.
import { readFileSync } from "node:fs";

const [script, module] = process.argv.slice(2);
const { load } = await import(script);
const engine = await load(readFileSync(module));
const answers = JSON.parse(readFileSync(0, "utf8")).map(({ scenario, files = {}, seed, steps = 1 }) => {
  const given = new Map(Object.entries(files).map(([name, text]) => [name, Buffer.from(text, "base64")]));
  try {
    const run = engine.open(scenario, given, seed === undefined ? {} : { seed });
    const end = JSON.parse(scenario).duration_s ?? 30;
    for (let step = 1; step <= steps; step++) run.advance((end * step) / steps);
    run.advance(1e9);
    const answer = { digest: run.digest(), json: run.result() };
    run.free();
    return answer;
  } catch (error) {
    if (error.name !== "EngineError") throw error;
    return { path: error.path, message: error.message };
  }
});
process.stdout.write(JSON.stringify(answers));
