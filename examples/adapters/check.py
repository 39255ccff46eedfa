"""Compares transfers over the adapters with the simulator: throughput within 5 %, mean one-way delay within 15 %.

    sudo python examples/adapters/check.py quinn s2n-quic tquic

Each adapter's transfer, which `cargo build --release` builds, runs over the emulator: four controllers on three links,
each with several seeds. `own` is the package's own QUIC endpoint. The table has the difference from the simulator's
mean with a 95 % interval. `outside` means that the whole interval is beyond the limit, and `within` that none of it is.
`open` takes more repeats or a quieter machine. The command ends with 1 if a difference is outside.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ccarena.configs import load_config
from ccarena.core.learned_schemes import shipped_policies
from ccarena.eval.measure.sample import Interval, confidence_interval
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, Graph, Node
from ccarena.policies.spec import spec_of
from ccarena.scenarios.backends import counts
from ccarena.scenarios.run import run

HERE = Path(__file__).parent
THROUGHPUT, DELAY = 0.05, 0.15
LINKS = {
    "24 Mbit/s, 40 ms": {"rate_mbps": 24, "delay_ms": 20, "packets": 80},
    "48 Mbit/s, 20 ms": {"rate_mbps": 48, "delay_ms": 10, "packets": 80},
    "12 Mbit/s, 80 ms": {"rate_mbps": 12, "delay_ms": 40, "packets": 80},
}
REQUIRED_MBPS = (6, 10)
AHEAD = ("chrt", "--rr", "1")
"""Runs a program before others, as the package's own endpoint runs itself."""


def aurora(folder: Path) -> Path:
    """Writes a policy for Aurora's spec: the rate rises while the RTT is below 1.2 times the least one, or falls."""
    spec = spec_of(load_config("aurora"))
    weight, bias = np.zeros((1, spec.size), np.float32), np.full(1, 4, np.float32)
    ends = np.cumsum([entry.length for entry in spec.observation])
    newest = next(
        int(end) - 1 for entry, end in zip(spec.observation, ends, strict=True) if entry.name == "latency_ratio"
    )
    weight[0, newest] = -20
    node = Node("rate", "linear", (OBSERVATION,), {"weight": "weight", "bias": "bias"})
    graph = Graph(spec.size, (node,), "rate", {"weight": weight, "bias": bias})
    path = folder / "aurora.safetensors"
    Artifact.of(graph, spec.interface, params=spec.params).save(path)
    return path


def flows(folder: Path) -> dict[str, dict[str, Any]]:
    """The flow of each controller, as the simulator takes it."""
    low, high = REQUIRED_MBPS
    return {
        "cubic": {"scheme": "cubic"},
        "hercules": {"scheme": "hercules", "requirement": {"min_mbps": low, "max_mbps": high}},
        "aurora-like": {"scheme": "aurora", "policy": str(aurora(folder))},
        "hyvar": {"scheme": "hyvar", "policy": str(shipped_policies()["hyvar"])},
    }


def over(stack: str, flow: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The flow over an adapter: its transfer as an entrant."""
    control = flow.get("policy", flow["scheme"])
    program = Path(os.environ.get("CARGO_TARGET_DIR", HERE / stack / "target")) / "release" / f"{stack}-transfer"
    entrant = {
        "name": stack,
        "kind": "quic",
        "server": [*AHEAD, str(program), "server"],
        "client": [*AHEAD, str(program), "client"],
        "certificate": True,
        "ready": "udp",
        "env": {"CCARENA_CONTROL": control},
    }
    if "requirement" in flow:
        entrant["env"]["CCARENA_REQUIRED_MBPS"] = "-".join(map(str, REQUIRED_MBPS))
    path = folder / f"{stack}-{flow['scheme']}.yaml"
    path.write_text(yaml.safe_dump(entrant))
    return {"scheme": str(path)}


def figures(
    flow: dict[str, Any], link: dict[str, Any], backend: str, asked: argparse.Namespace
) -> tuple[list[float], list[float]]:
    """Share of the link that the flow takes, and mean one-way delay in ms, by seed; late runs are left out."""
    scenario = {
        "duration_s": asked.seconds,
        "links": [
            {
                "service": {"type": "constant", "rate_mbps": link["rate_mbps"]},
                "queue": {"type": "droptail", "packets": link["packets"]},
                "delay_ms": link["delay_ms"],
            }
        ],
        "flows": [flow],
    }
    rows = run(scenario, backend=backend, seeds=asked.repeats, progress=False).flows().to_dict("records")
    kept = [row for row in rows if counts(row)]
    for row in rows:
        if row.get("error"):
            print(f"# {row['error']}", file=sys.stderr)
    shares = [row["throughput_mbps"] / link["rate_mbps"] for row in kept]
    return shares, [row["one_way_delay_mean_ms"] for row in kept]


def verdict(found: Interval, most: float) -> str:
    """Returns how the interval of a difference lies to its limits."""
    low, high = (found.low, found.high) if np.isfinite(found.low) else (found.mean, found.mean)
    if not np.isfinite(found.mean):
        return "no run"
    if -most <= low and high <= most:
        return "within"
    return "outside" if low > most or high < -most else "open"


def shown(found: Interval) -> str:
    """Returns a difference and half of its interval, in percent."""
    half = f" ± {100 * (found.high - found.mean):.1f}" if np.isfinite(found.high) else ""
    return f"{100 * found.mean:+.1f}{half} %"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("stacks", nargs="+", help="folders of adapters, and `own`")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each run in seconds (default 10)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each cell, with seeds 1, 2, ... (default 3)")
    parser.add_argument("--controllers", nargs="+", default=["all"], help="controllers to compare (default all)")
    asked = parser.parse_args()
    seen = {"within": 0, "open": 0, "outside": 0, "no run": 0}
    print(
        f"{asked.repeats} runs of {asked.seconds:g} s per cell; load is the mean number of busy processes in a minute"
    )
    print(f"{'stack':11} {'controller':12} {'link':18} {'throughput':>16} {'delay':>16}  load  verdict")
    with tempfile.TemporaryDirectory() as folder:
        for name, flow in flows(Path(folder)).items():
            if not {"all", name} & set(asked.controllers):
                continue
            for label, link in LINKS.items():
                shares, delays = figures(flow, link, "sim", asked)
                for stack in asked.stacks:
                    real = flow if stack == "own" else over(stack, flow, Path(folder))
                    found, late = figures(real, link, "quic", asked)
                    more = confidence_interval([share / np.mean(shares) - 1 for share in found])
                    later = confidence_interval([delay / np.mean(delays) - 1 for delay in late])
                    worst = max(verdict(more, THROUGHPUT), verdict(later, DELAY), key=list(seen).index)
                    seen[worst] += 1
                    row = f"{stack:11} {name:12} {label:18} {shown(more):>16} {shown(later):>16}"
                    print(f"{row} {os.getloadavg()[0]:5.1f}  {worst}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in seen.items()))
    return 1 if seen["outside"] or seen["no run"] else 0


if __name__ == "__main__":
    sys.exit(main())
