"""`ccarena eval`: a policy beside the heuristics on held-out links, or one scenario file and its figures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import yaml

from ccarena import traces
from ccarena.errors import ConfigError, PolicyError, ScenarioError
from ccarena.eval import hybrids, report
from ccarena.eval.backends import BACKENDS, KERNEL, SIM
from ccarena.eval.evaluate import (
    EVALUATION,
    POLICY,
    REPORT,
    RESULTS,
    evaluate,
    plain,
    run_scenario,
    write_atomically,
)
from ccarena.eval.expectations import judge
from ccarena.eval.links import SUITES
from ccarena.policies import artifact

__all__ = ["add_parser", "find_policy", "give_policy", "read_scenario", "run"]

SCENARIO_COLUMNS = (
    "throughput_mbps",
    "goodput_mbps",
    "utilisation",
    "queueing_delay_mean_ms",
    "queueing_delay_p95_ms",
    "signal_delay_p95_ms",
    "loss_share",
)


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command's options."""
    parser = subparsers.add_parser("eval", **kwargs)
    parser.add_argument(
        "policy",
        nargs="?",
        metavar="POLICY_OR_RUN",
        help="a policy file, a run's folder, or the name of a run in runs/; without one only the heuristics run",
    )
    parser.add_argument(
        "--suite",
        nargs="+",
        metavar="SUITE",
        help=f"of {', '.join(SUITES)}, and for Hyvar, Orca and Aurora {hybrids.SLIDES} (all)",
    )
    parser.add_argument("--scenario", type=Path, metavar="FILE.yaml", help="run this scenario instead of the suites")
    parser.add_argument(
        "--schemes", nargs="*", default=["cubic", "bbr", "reno"], metavar="SCHEME", help="heuristics (cubic bbr reno)"
    )
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="repetitions per link (3)")
    parser.add_argument("--duration-s", type=float, metavar="S", help="time per run (the suite's own: 30 or 60)")
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default=SIM,
        help="sim: the simulator; kernel: Linux TCP over the emulated link, in real time, as root (sim)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="links that run at once (sim: 2, kernel: 1)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for results and report (eval/ beside the policy)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Evaluates and reports. Returns the exit code: 0 if it ran, whatever the verdict."""
    policy = None if args.policy is None else find_policy(args.policy)
    if args.scenario is not None:
        return _run_scenario(args.scenario, policy, args.json, args.backend)
    # Links that run side by side in real time make each other late.
    threads = args.threads if args.threads is not None else 1 if args.backend == KERNEL else 2
    if threads < 1:
        raise ConfigError(f"--threads {threads}: expected at least 1")
    folder = "eval" if args.backend == SIM else f"eval-{args.backend}"
    out = args.out or (policy.parent / folder if policy else Path("runs", folder))
    training = report.read_progress(policy.parent / "progress.jsonl") if policy else []
    options: dict[str, Any] = {
        "seeds": args.seeds,
        "duration_s": args.duration_s,
        "schemes": args.schemes,
        "backend": args.backend,
    }
    with report.progress_bar("evaluating") as progress:
        options |= {"threads": threads, "progress": progress}
        if policy is not None and artifact.load(policy).contract.bounds is not None:
            suites = args.suite or list(hybrids.SUITES)
            result = hybrids.evaluate(policy, suites, **options)
            verdict = hybrids.judge(result, training)
        else:
            suites = args.suite or list(SUITES)
            result = evaluate(policy, suites, **options)
            verdict = judge(result, training)
    digest = plain(report.digest(result, verdict))
    result.save(out / RESULTS)
    write_atomically(out / EVALUATION, json.dumps(digest, indent=1) + "\n")
    config = policy.parent / "config.yaml" if policy else None
    known = config if config is not None and config.is_file() else None
    report.write_report(
        out / REPORT,
        result,
        verdict,
        name=policy.parent.name if policy else "heuristics",
        progress=training,
        config=known.read_text("utf-8") if known else "",
        repeat=report.repeat_commands(known, policy, suites, args.seeds, args.duration_s, args.backend),
    )
    if args.json:
        print(json.dumps(digest, indent=1))
        return 0
    report.print_summary(result, verdict, out / REPORT)
    print(verdict.line)
    return 0


def find_policy(name: str) -> Path:
    """The policy file that `name` means: a file, a run's folder, or a run in `runs/`. Raises PolicyError."""
    for path in (Path(name), Path("runs", name)):
        if path.is_dir():
            if (path / POLICY).is_file():
                return path / POLICY
            raise PolicyError(f"{path}: the run has no {POLICY} yet; train it first, or resume it with `--resume`")
        if path.is_file():
            return path
    raise PolicyError(f"{name}: no such policy or run; expected a file, a run's folder, or the name of a run in runs/")


def read_scenario(path: Path) -> dict[str, Any]:
    """A scenario document from a YAML (or JSON) file. Raises ScenarioError, naming file and line of a syntax error.

    Traces may be given by name: they are looked up as `ccarena.traces.find` does.
    """
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot read the scenario: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not a text file (byte {error.start}); expected YAML in UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ScenarioError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(document, dict):
        found = "nothing" if document is None else type(document).__name__
        raise ScenarioError(f"{path}: a scenario is a mapping with `links` and `flows`, found {found}")
    links = document.get("links")
    for link in links if isinstance(links, list) else []:
        service = link.get("service") if isinstance(link, dict) else None
        if isinstance(service, dict) and service.get("type") == "trace" and isinstance(service.get("file"), str):
            service["file"] = str(traces.find(service["file"]))
    return document


def give_policy(document: dict[str, Any], policy: Path | None) -> dict[str, Any]:
    """The scenario with `policy`, if there is one, deciding for the flows of ACCT that have none."""
    flows = document.get("flows")
    for flow in flows if isinstance(flows, list) and policy is not None else []:
        if isinstance(flow, dict) and flow.get("scheme") == "acct" and flow.get("policy") is None:
            flow["policy"] = str(policy)
    return document


def _run_scenario(path: Path, policy: Path | None, as_json: bool, backend: str) -> int:
    document = give_policy(read_scenario(path), policy)
    try:
        rows = run_scenario(document, backend=backend)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from error
    if as_json:
        print(json.dumps(plain(rows), indent=1))
        return 0
    head = ["flow", "scheme", "link"]
    figures = [*SCENARIO_COLUMNS, *(["satisfaction"] if any("satisfaction" in row for row in rows) else [])]
    cells = [[str(row[key]) for key in head] + [report.show(name, row.get(name)) for name in figures] for row in rows]
    if not rows[0].get("valid", True):
        late_ms = rows[0]["lateness_p99_ms"]
        print(f"INVALID RUN: the emulator was {late_ms:.2f} ms late (p99); run it again on a quieter machine")
    report.print_table(str(path), head + [report.heading(name) for name in figures], cells, left=3)
    if len(rows) > 1:
        print(f"Jain's index of the goodputs: {report.fairness(rows):.4f}")
        for name in ("max_min_distance", "hrf_distance"):
            if name in rows[0]:
                print(f"{report.heading(name)}: {report.show(name, rows[0][name])}")
    return 0
