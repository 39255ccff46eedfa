// Reads documents as the simulator for web pages does. Standard input is a JSON list of texts, standard output a list of
// {json} or {message}.
import { readFileSync } from "node:fs";

const [script, module] = process.argv.slice(2);
const { load } = await import(script);
const engine = await load(readFileSync(module));
const answers = JSON.parse(readFileSync(0, "utf8")).map((text) => {
  try {
    return { json: engine.read(text) };
  } catch (error) {
    if (error.name !== "EngineError") throw error;
    return { message: error.message };
  }
});
process.stdout.write(JSON.stringify(answers));
