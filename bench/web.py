"""The simulator for web pages in Node and in headless Chromium beside the native one, in turns: `make web-bench`.

All three run the same scenario from its document to its digest, and must give the same one. The median of the rounds
counts. The module's size is measured as it is served: compressed.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ccarena
from bench.sheet import Sheet
from ccarena import _core
from ccarena.core import measurements
from ccarena.core.measurements import Target
from ccarena.errors import CcarenaError, ConfigError
from ccarena.pages.browser import Browser

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "crates/ccarena-web/page/build/engine.js"
MODULE = Path(ccarena.__file__).parent / "play/assets/engine.wasm"
LINK = {"service": {"type": "constant", "rate_mbps": 100}, "queue": {"type": "droptail", "bdp": 1}, "delay_ms": 10}
SCENARIO = json.dumps(
    {"duration_s": 60, "links": [LINK], "flows": [{"scheme": "cubic"}, {"scheme": "bbr", "start_s": 1}]}
)
MEASURE = """
function measure(engine, scenario) {
  const begun = performance.now();
  const run = engine.open(scenario);
  const { packets } = run.advance(Infinity);
  const digest = run.digest();
  const seconds = (performance.now() - begun) / 1e3;
  run.free();
  return [packets, seconds, digest];
}
"""
NODE = """
import { readFileSync } from "node:fs";
const [script, module, scenario] = process.argv.slice(1);
const { load } = await import(script);
const engine = await load(readFileSync(module));
measure(engine, scenario);
console.log(JSON.stringify(measure(engine, scenario)));
"""
PAGE = """<!doctype html><script type="module">
{script}
{measure}
const module = Uint8Array.from(atob("{module}"), (letter) => letter.charCodeAt(0));
globalThis.engine = load(module);
globalThis.measured = async (scenario) => measure(await engine, scenario);
</script>
"""

Measured = Callable[[], tuple[int, float, str]]


def main() -> int:
    """Measures, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.web", description="Measure the simulator for web pages.")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of native, Node and Chromium (7)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="results file to merge the figures into")
    args = parser.parse_args()
    try:
        sheet = Sheet(measurements.source("make web-bench", time.strftime("%Y-%m-%d")))
        measure(sheet, args.rounds)
        if args.record is not None:
            measurements.merge(args.record, sheet.entries)
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def measure(sheet: Sheet, rounds: int = 7) -> None:
    """Measures size and speed. Raises ConfigError if the module is not built or results differ."""
    if not (SCRIPT.is_file() and MODULE.is_file()):
        raise ConfigError(f"{MODULE} and {SCRIPT} are not both there; build them: make web")
    size = len(gzip.compress(MODULE.read_bytes(), 9)) / 1e6
    sheet.add("web/size", "Simulator for web pages, compressed (gzip)", size, "MB", Target(at_most=1.2))
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        script = SCRIPT.read_text("utf-8").partition("export {")[0]
        module = base64.b64encode(MODULE.read_bytes()).decode()
        page = Path(folder, "page.html")
        page.write_text(PAGE.format(script=script, measure=MEASURE, module=module), "utf-8")
        browser.open(page)
        places: dict[str, Measured] = {
            "native": _native,
            "Node": _node,
            "Chromium": lambda: tuple(browser.evaluate(f"measured({json.dumps(SCENARIO)})")),
        }
        times: dict[str, list[float]] = {name: [] for name in places}
        digests, packets = set(), 0
        for place in places.values():
            place()
        for _ in range(rounds):
            for name, place in places.items():
                found, seconds, digest = place()
                packets = max(packets, found)
                times[name].append(seconds)
                digests.add(digest)
    if len(digests) != 1:
        raise ConfigError(f"native, Node and Chromium give different digests: {', '.join(sorted(digests))}")
    for name, taken in times.items():
        target = Target(at_least=5.0) if name == "Chromium" else None
        speed = packets / statistics.median(taken) / 1e6
        sheet.add(f"web/speed/{name}", f"Two flows, 100 Mbit/s, a minute: {name}", speed, "M packets/s", target)
    pairs = zip(times["native"], times["Chromium"], strict=True)
    share = statistics.median(native / chromium for native, chromium in pairs)
    sheet.add("web/share", "Chromium beside native, median of pairs", share, "", Target(at_least=0.25))


def _native() -> tuple[int, float, str]:
    begun = time.perf_counter()
    digest = _core.result_digest(SCENARIO)
    return 0, time.perf_counter() - begun, digest


def _node() -> tuple[int, float, str]:
    command = ["node", "--input-type=module", "--eval", MEASURE + NODE, str(SCRIPT), str(MODULE), SCENARIO]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise ConfigError(f"Node failed: {done.stderr.strip()}")
    packets, seconds, digest = json.loads(done.stdout)
    return packets, seconds, digest


if __name__ == "__main__":
    sys.exit(main())
