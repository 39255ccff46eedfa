"""End of a training: evaluation of the run's policy as its configuration says, with its files.

`ccarena eval` uses `write_outcome` too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ccarena.configs import TrainConfig, dump_config
from ccarena.core.files import write_atomically
from ccarena.core.plain_data import plain
from ccarena.core.terminal import progress_bar
from ccarena.eval.heldout.evaluate import evaluate
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.eval.heldout.expectations import Verdict, judge
from ccarena.eval.heldout.page import write_page
from ccarena.eval.heldout.summary import digest, print_first, print_summary
from ccarena.runs.run_folder import (
    EVALUATION,
    PAGE,
    POLICY,
    PROGRESS,
    RESULTS,
    read_commands,
    read_progress,
    resume_command,
)
from ccarena.scenarios.entrants import of_file, parse

__all__ = ["evaluate_run", "write_outcome"]


def evaluate_run(run: Path, config: TrainConfig) -> Verdict:
    """Evaluates the policy in the folder `run` as `config.eval` says, judges it and the training, writes and prints
    both.

    The files are those of `write_outcome`. Returns the verdict. Raises what `evaluate` raises.
    """
    settings, policy = config.eval, run / POLICY
    with progress_bar("evaluating") as progress:
        result = evaluate(
            [of_file(policy)],
            settings.link_sets,
            settings.seeds,
            settings.duration_s,
            [parse(name) for name in config.baselines],
            threads=config.threads,
            progress=progress,
            config=config,
            early=print_first,
        )
    result.repeat = read_commands(run)
    training = read_progress(run / PROGRESS)
    verdict = judge(result, training)
    if verdict.learned.answer in ("partly", "no", "undecided"):
        verdict.notes.append(_longer(run, config))
    write_outcome(
        run,
        result,
        verdict,
        name=config.name,
        progress=training,
        config=dump_config(config),
    )
    print_summary(result, verdict, run / PAGE)
    return verdict


def _longer(run: Path, config: TrainConfig) -> str:
    """Returns the command that trains on, for a training that may have been too short."""
    twice = f"{resume_command(run)} --total-decisions {2 * config.total_decisions}"
    return f"trained for {config.total_decisions:,} decisions, which may be too few; to train on: `{twice}`"


def write_outcome(
    folder: Path,
    result: Evaluation,
    verdict: Verdict,
    *,
    name: str,
    progress: Sequence[Mapping[str, Any]],
    config: str,
) -> dict[str, Any]:
    """Writes an evaluation and its verdict to `folder`; the keyword arguments are those of `write_page`.

    The files are `results.json` (every row and series), `evaluation.json` (verdict and means) and `page.html`. Returns
    the content of `evaluation.json`, which is also the policy's metadata.
    """
    result.save(folder / RESULTS)
    short: dict[str, Any] = plain(digest(result, verdict))
    write_atomically(folder / EVALUATION, json.dumps(short, indent=1) + "\n")
    write_page(folder / PAGE, result, verdict, name=name, progress=progress, config=config)
    return short
