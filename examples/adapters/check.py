"""Compares transfers over the adapters with the simulator: throughput within 5 %, mean one-way delay within 15 %.

    sudo python examples/adapters/check.py quinn s2n-quic

Each adapter's transfer, which `cargo build --release` builds, runs over the emulator: four controllers on three links.
`own` is the package's own QUIC endpoint. The command prints a table, and ends with 1 if a difference is larger.
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
from ccarena.policies.artifact import Artifact
from ccarena.policies.graph import OBSERVATION, Graph, Node
from ccarena.policies.spec import spec_of
from ccarena.scenarios.run import run

HERE = Path(__file__).parent
THROUGHPUT, DELAY = 0.05, 0.15
LINKS = {
    "24 Mbit/s, 40 ms": {"rate_mbps": 24, "delay_ms": 20, "packets": 80},
    "48 Mbit/s, 20 ms": {"rate_mbps": 48, "delay_ms": 10, "packets": 80},
    "12 Mbit/s, 80 ms": {"rate_mbps": 12, "delay_ms": 40, "packets": 80},
}
REQUIRED_MBPS = (6, 10)


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
        "server": [str(program), "server"],
        "client": [str(program), "client"],
        "certificate": True,
        "ready": "udp",
        "env": {"CCARENA_CONTROL": control},
    }
    if "requirement" in flow:
        entrant["env"]["CCARENA_REQUIRED_MBPS"] = "-".join(map(str, REQUIRED_MBPS))
    path = folder / f"{stack}-{flow['scheme']}.yaml"
    path.write_text(yaml.safe_dump(entrant))
    return {"scheme": str(path)}


def figures(flow: dict[str, Any], link: dict[str, Any], backend: str, seconds: float) -> tuple[float, float]:
    """Share of the link that the flow takes, and mean one-way delay in ms."""
    scenario = {
        "duration_s": seconds,
        "links": [
            {
                "service": {"type": "constant", "rate_mbps": link["rate_mbps"]},
                "queue": {"type": "droptail", "packets": link["packets"]},
                "delay_ms": link["delay_ms"],
            }
        ],
        "flows": [flow],
    }
    [row] = run(scenario, backend=backend, progress=False).flows().to_dict("records")
    return row["throughput_mbps"] / link["rate_mbps"], row["one_way_delay_mean_ms"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("stacks", nargs="+", help="folders of adapters, and `own`")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each run in seconds (default 10)")
    asked = parser.parse_args()
    wide = 0
    print("stack       controller   link                share  of sim's    delay ms  of sim's")
    with tempfile.TemporaryDirectory() as folder:
        for name, flow in flows(Path(folder)).items():
            for label, link in LINKS.items():
                share, delay = figures(flow, link, "sim", asked.seconds)
                for stack in asked.stacks:
                    real = flow if stack == "own" else over(stack, flow, Path(folder))
                    found, late = figures(real, link, "quic", asked.seconds)
                    more, later = found / share - 1, late / delay - 1
                    outside = abs(more) > THROUGHPUT or abs(later) > DELAY
                    wide += outside
                    row = f"{stack:11} {name:12} {label:18} {found:6.1%}   {more:+7.1%}  {late:10.1f}   {later:+7.1%}"
                    print(row, "outside" if outside else "", flush=True)
    print(f"{wide} outside of 5 % of throughput or 15 % of delay")
    return 1 if wide else 0


if __name__ == "__main__":
    sys.exit(main())
