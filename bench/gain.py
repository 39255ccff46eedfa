"""`python -m bench.gain`: measures how much ACCT's network can gain over the best table, setting by setting.

A setting is a distribution of links. In each of them:

- **best table**: an action for each zone and `silent_at`, tuned together on links of their own;
- **network**: `acct-signals` trained on the setting's links, with the table's `silent_at`, once per seed;
- **own table** and **schedule**: what a sender earns that knows the very link (`bench.clairvoyant`);
- **at most**: the reward of every decision is at most 100, in every zone.

All are scored by the training's reward, over the same links, which neither tuning nor training has seen. Finished
parts are kept in `--out`. The figures go to docs/measurements.json; `make measurements` writes them into the pages.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.clairvoyant import Clairvoyant, climb
from ccarena.configs import TrainConfig, load_config
from ccarena.core import measurements
from ccarena.core.files import write_atomically
from ccarena.core.measurements import Entry, Source
from ccarena.envs.trials import Candidate, Outcome, Trials
from ccarena.errors import CcarenaError
from ccarena.eval.heldout.gain import RESAMPLES
from ccarena.eval.heldout.rules import SEED as TUNED_ON
from ccarena.policies.spec import Spec, spec_of
from ccarena.runs.run_folder import POLICY

CONFIG = "acct-signals"
TESTED_ON = 0x4741_494E
"""Seed of the tested links. Training draws from its own seed, tuning from `TUNED_ON`."""
TUNING_LINKS = 48
DECISIONS = 3_000_000
LARGEST_REWARD = 100.0
"""Largest reward of a decision: A in Green, 101 - A elsewhere, with A from 1 to 100 (`ccarena.acct.rewards`)."""
COARSE = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 70.0, 100.0)
"""Values of α that searches try."""
SILENT_AT = (0.0, 0.5, 1.0, 2.0, 4.0)
TABLE = "ACCT by setting: mean reward per decision, at most 100, and points gained over the best table"
ALIKE = {
    "env.episode_s": [10, 10],
    "env.link.kinds": {"constant": 1, "random_steps": 1, "cellular": 0, "trace": 0},
    "env.link.rate_mbps": [5, 50],
    "env.link.rtt_ms": [10, 100],
    "env.link.buffer_bdp": [1, 4],
    "env.link.signal": 1.0,
    "env.link.router": None,
    "env.cross_traffic.probability": 0.0,
}
"""Keys that settings share: wired links, half of them with a new capacity every 2 to 6 s, runs of 10 s."""


@dataclass(frozen=True)
class Setting:
    """Distribution of links on which a table, a network and clairvoyants are compared."""

    title: str
    changes: Mapping[str, Any]

    @cached_property
    def overrides(self) -> dict[str, Any]:
        """Returns the keys of the configuration that the setting changes."""
        return {**ALIKE, **self.changes}


SETTINGS = {
    "exact": Setting("exact signals", {}),
    "late": Setting("signals 50-250 ms late", {"env.link.router": {"late_ms": [50, 250]}}),
    "coarse": Setting("signals of 1 to 3 significant bits", {"env.link.router": {"bits": [1, 3]}}),
    "noisy": Setting(
        "signals up to 10-35 % wrong, every 100 ms", {"env.link.router": {"every_ms": 100, "noise": [0.1, 0.35]}}
    ),
    "missing": Setting(
        "30-70 % of the signals missing, every 100 ms", {"env.link.router": {"every_ms": 100, "missing": [0.3, 0.7]}}
    ),
    "competitors": Setting(
        "exact signals, beside CUBIC or Reno, which ignore them", {"env.cross_traffic.probability": 1.0}
    ),
    "silent": Setting("no signals", {"env.link.signal": 0.0}),
    "silent-competitors": Setting(
        "no signals, beside CUBIC or Reno", {"env.link.signal": 0.0, "env.cross_traffic.probability": 1.0}
    ),
    "half-silent": Setting("exact signals on half of the links, none on the others", {"env.link.signal": 0.5}),
    "half-faulty": Setting(
        "half of the links signal, each router with one of these faults",
        {
            "env.link.signal": 0.5,
            "env.link.router": {
                "every_ms": [0, 600],
                "late_ms": [0, 250],
                "noise": [0, 0.35],
                "bits": [1, 6],
                "missing": [0, 0.6],
                "single": 1,
            },
        },
    ),
    "mixed": Setting(
        "mixed: half of the links signal, with all faults at once; half have competitors",
        {
            "env.link.signal": 0.5,
            "env.link.router": {
                "every_ms": [0, 200],
                "late_ms": [0, 100],
                "noise": [0, 0.2],
                "bits": [3, 8],
                "missing": [0, 0.3],
            },
            "env.cross_traffic.probability": 0.5,
        },
    ),
}


class Measured:
    """One setting's comparison, kept in a JSON file of its own."""

    def __init__(self, setting: Setting, folder: Path, threads: int) -> None:
        self._setting, self._folder, self._threads = setting, folder, threads
        self._file = folder / "measured.json"
        self.kept: dict[str, Any] = {"links": {}}
        if self._file.is_file():
            self.kept = json.loads(self._file.read_text("utf-8"))

    @cached_property
    def config(self) -> TrainConfig:
        """Returns the configuration with the setting's links."""
        return load_config(CONFIG, self._setting.overrides)

    @cached_property
    def spec(self) -> Spec:
        """Returns the learned scheme."""
        return spec_of(self.config)

    @property
    def levels(self) -> list[int]:
        """Returns the indices of the actions that searches try."""
        return [self.spec.actions.index(value) for value in COARSE]

    @property
    def params(self) -> dict[str, float]:
        """Returns the parameters of the scheme that the best table came with."""
        return {"silent_at": float(self.kept["table"]["silent_at"])}

    def tune(self) -> None:
        """Finds the best table, on links of its own."""
        if "table" in self.kept:
            return
        trials, known = Trials(self.config, self.spec, self._threads), dict[tuple[float, ...], float]()

        def score(points: list[tuple[float, ...]]) -> list[float]:
            new = [point for point in points if point not in known]
            asked = [Candidate(("zone", list(point[:-1])), {"silent_at": point[-1]}) for point in new]
            known.update(zip(new, (done.score for done in trials.run(asked, TUNED_ON, TUNING_LINKS)), strict=True))
            return [known[point] for point in points]

        choices = [[float(level) for level in self.levels]] * 4 + [SILENT_AT]
        largest = float(self.levels[-1])
        starts = [(largest, 0.0, 0.0, 0.0, SILENT_AT[0]), (0.0, 0.0, 0.0, 0.0, SILENT_AT[2])]
        best, value = max((climb(start, choices, score) for start in starts), key=lambda found: found[1])
        self.kept["table"] = {"actions": best[:-1], "silent_at": best[-1], "tuned": value}
        print(f"{self._folder.name}: table of {value:.1f} on {TUNING_LINKS} links: {best}", flush=True)
        self._keep()

    def know(self, links: int) -> None:
        """Searches what a clairvoyant earns on each of the first `links` tested links."""
        missing = [link for link in range(links) if str(link) not in self.kept["links"]]
        trials = Trials(self.config, self.spec, 1)
        search = Clairvoyant(trials, self.spec, "zone", self.levels, self.params, TESTED_ON)
        with ThreadPoolExecutor(self._threads) as pool:
            for link, found in zip(
                missing, pool.map(lambda link: search(link, self.kept["table"]["actions"]), missing), strict=True
            ):
                self.kept["links"][str(link)] = vars(found)
                self._keep()

    def train(self, seed: int, decisions: int) -> None:
        """Trains the network with this seed, unless that is done."""
        from ccarena.agents.api import train

        out = self._folder / f"seed-{seed}"
        if (out / POLICY).is_file():
            return
        overrides = {"seed": seed, "total_decisions": decisions, "eval.link_sets": [], "threads": self._threads}
        overrides["params"] = self.params
        train(CONFIG, {**self._setting.overrides, **overrides}, out=out, resume=out.is_dir())

    def test(self, links: int) -> None:
        """Runs every trained network, and the table, over the first `links` tested links."""
        trials = Trials(self.config, self.spec, self._threads)
        deciders = {"table": Candidate(("zone", self.kept["table"]["actions"]), self.params)}
        for folder in sorted(self._folder.glob("seed-*")):
            if (folder / POLICY).is_file():
                deciders[folder.name] = Candidate((folder / POLICY).read_bytes(), self.params)
        runs = trials.run(list(deciders.values()), TESTED_ON, links)
        self.kept["runs"] = {name: _figures(run) for name, run in zip(deciders, runs, strict=True)}
        self._keep()

    def _keep(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file, json.dumps(self.kept, indent=1))


def _figures(run: Outcome) -> dict[str, Any]:
    return {
        "scores": run.by_trial.tolist(),
        "utilisation": float(run.run["utilisation"].mean()),
        "queueing_delay_p95_ms": float(run.run["queueing_delay_p95_ms"].mean()),
    }


def entries(name: str, setting: Setting, kept: Mapping[str, Any], spec: Spec, source: Source) -> list[Entry]:
    """Returns the figures of one setting for docs/measurements.json."""
    links = [kept["links"][key] for key in sorted(kept["links"], key=int)]
    table = np.array([each["table"] for each in links])
    cells = {"best table": f"{table.mean():.1f}".replace("-", "−")}
    networks = [each["scores"][: len(links)] for seed, each in kept["runs"].items() if seed != "table"]
    cells["network"] = _cell(np.array(networks), table) if networks else "–"
    cells["clairvoyant: own table"] = _cell(np.array([[each["own_table"] for each in links]]), table)
    cells["clairvoyant: schedule"] = _cell(np.array([[each["schedule"] for each in links]]), table)
    cells["utilisation, p95 queueing delay"] = _on_the_link(kept["runs"])
    cells["at most"] = f"{LARGEST_REWARD:.0f}: {LARGEST_REWARD - table.mean():+.1f}"
    actions = [f"{spec.actions[int(at)]:g}" for at in kept["table"]["actions"]]
    zones = ("green", "yellow", "red", "blue")
    cells["α of the best table"] = ", ".join(f"{zone} {action}" for zone, action in zip(zones, actions, strict=True))
    if kept["table"]["silent_at"]:
        cells["α of the best table"] += f"; `silent_at` {kept['table']['silent_at']:g}"
    return [
        Entry(
            f"learned/acct/by-setting/{name}/{_key(case)}",
            "learned",
            setting.title,
            value,
            source,
            "",
            None,
            None,
            TABLE,
            case,
        )
        for case, value in cells.items()
    ]


def _key(case: str) -> str:
    return case.replace(":", "").replace(",", "").replace(" ", "-")


def _cell(ours: NDArray[np.float64], table: NDArray[np.float64]) -> str:
    """Returns the mean of scores `[trainings, links]` and the points gained over the table's, `[links]`.

    The interval (95 %) is a bootstrap over trainings and links.
    """
    gained = ours - table
    rng = np.random.Generator(np.random.PCG64(0))
    drawn = [gained[np.ix_(*(rng.integers(0, n, n) for n in gained.shape))].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{ours.mean():.1f}: {gained.mean():+.1f} [{low:.1f}, {high:.1f}]".replace("-", "−")


def _on_the_link(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns utilisation and queueing delay of the table and, in the mean over trainings, of the network."""

    def shown(of: Sequence[Mapping[str, Any]]) -> str:
        utilisation, delay_ms = (
            np.mean([each[name] for each in of]) for name in ("utilisation", "queueing_delay_p95_ms")
        )
        return f"{100 * utilisation:.0f} %, {delay_ms:.1f} ms"

    networks = [each for name, each in runs.items() if name != "table"]
    return f"table {shown([runs['table']])}" + (f"; network {shown(networks)}" if networks else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures the chosen settings. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.gain", description="Measure what ACCT's network can gain.")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SETTINGS,
        default=list(SETTINGS),
        metavar="SETTING",
        help=f"of {', '.join(SETTINGS)}",
    )
    parser.add_argument("--links", type=int, default=32, help="tested links of a setting (%(default)s)")
    parser.add_argument(
        "--train",
        nargs="*",
        choices=SETTINGS,
        default=[],
        metavar="SETTING",
        help="settings in which a network is trained (none)",
    )
    parser.add_argument("--seeds", type=int, default=5, help="trainings in such a setting (%(default)s)")
    parser.add_argument("--decisions", type=int, default=DECISIONS, help="length of a training (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs", "gain"), help="kept parts (%(default)s)")
    parser.add_argument("--record", type=Path, default=measurements.FILE, metavar="FILE", help="(%(default)s)")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="the day that is recorded (today)")
    args = parser.parse_args(arguments)
    source = measurements.source(f'make gain ARGS="--links {args.links}"', args.date)
    try:
        chosen = {name: Measured(SETTINGS[name], args.out / name, args.threads) for name in args.only}
        for measured in chosen.values():
            measured.tune()
        for name in args.train:
            for seed in range(1, args.seeds + 1):
                chosen[name].train(seed, args.decisions)
        for name, measured in chosen.items():
            measured.test(args.links)
            measured.know(args.links)
            found = entries(name, SETTINGS[name], measured.kept, measured.spec, source)
            measurements.merge(args.record, found)
            print(f"{name}\n" + "\n".join(f"  {entry.case:<28}{entry.value}" for entry in found), flush=True)
    except CcarenaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
