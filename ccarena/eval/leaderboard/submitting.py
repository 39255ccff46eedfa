"""Commands `ccarena leaderboard submit` and `verify`: claims are measured, and compared with a second run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ccarena import __version__
from ccarena.core.files import write_atomically
from ccarena.core.machine import require_linux
from ccarena.core.terminal import Progress
from ccarena.errors import ConfigError, PolicyError
from ccarena.eval.leaderboard.exchange import DIGITS, TOLERANCE
from ccarena.eval.leaderboard.links import PRESETS, traces_of
from ccarena.eval.leaderboard.sampling import Sample, draw
from ccarena.eval.leaderboard.submission import (
    MOST_CLAIMS,
    NUMBERS,
    Claim,
    Submission,
    SubmissionError,
    checked_text,
    read,
    write,
)
from ccarena.eval.leaderboard.submitted_file import SubmittedFile
from ccarena.eval.leaderboard.trial import Limits, figures_of
from ccarena.executors import pool_of
from ccarena.scenarios.entrants import named_file, parse

__all__ = ["file_of", "keep", "links_of", "submit", "verify"]


def links_of(
    delays_ms: Sequence[float], buffers: Sequence[int], duration_s: float, seeds: int, traces: Sequence[str] = ()
) -> list[Claim]:
    """Returns the claims of a submission, without figures: generated traces (all, or those named), delays, buffers and
    seeds. Raises ConfigError for numbers that no claim may have.
    """
    for option, key, values in (
        ("--delays-ms", "delay_ms", delays_ms),
        ("--buffers", "buffer_packets", buffers),
        ("--duration-s", "duration_s", [duration_s]),
    ):
        for value in values:
            NUMBERS[key](value, option)
    names = list(traces) or [trace.name for trace in traces_of([PRESETS])]
    if not 1 <= (count := len(names) * len(delays_ms) * len(buffers) * seeds) <= MOST_CLAIMS:
        raise ConfigError(f"--seeds {seeds}: {count:,} runs on all links; expected 1 to {MOST_CLAIMS:,} of them")
    return [
        Claim(name, delay_ms, buffer, duration_s, seed, {"score": 0.0})
        for name in names
        for delay_ms in delays_ms
        for buffer in buffers
        for seed in range(seeds)
    ]


def file_of(text: str) -> tuple[str, Path]:
    """Returns the label and the file of an entrant that is a policy or a module, without settings.

    Raises PolicyError or ConfigError for anything else.
    """
    entrant = parse(text)
    controller = entrant.flow.get("controller", {})
    if controller.get("type") != "wasm":
        return named_file(text)
    if entrant.flow.keys() - {"scheme", "controller"}:
        raise PolicyError(f'entrant "{text}": this takes a module without "@KEY=VALUE"; leave that out')
    return entrant.label, Path(controller["module"])


def submit(
    entrant: Path,
    out: Path,
    name: str,
    links: Sequence[Claim],
    *,
    author: str = "",
    note: str = "",
    threads: int = 2,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Submission:
    """Measures the policy or module on `links` and writes the submission to `out`. Raises SubmissionError or
    PolicyError.
    """
    submission = Submission(name, author, note, __version__, SubmittedFile.of(entrant), tuple(links))
    checked_text(submission)  # before anything is measured
    found = _measured(entrant, links, threads, limits or Limits(), progress)
    claims = tuple(
        replace(claim, figures={key: _short(value) for key, value in figures.items() if math.isfinite(value)})
        for claim, figures in zip(links, found, strict=True)
    )
    submission = replace(submission, claims=claims)
    write(submission, out)
    return submission


def verify(
    file: Path,
    sample: int,
    *,
    seed: int | None = None,
    threads: int = 2,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> tuple[Submission, Sample]:
    """Repeats a sample of a submission's claims (`sampling.draw`), `sample` at least. Returns both.

    Raises SubmissionError if the file is refused, a run takes more than `limits`, or a figure is not as claimed. Raises
    MachineError outside Linux, where runs have no limit of memory.
    """
    require_linux("verifying a submission")
    if sample < 1:
        raise ConfigError(f"--sample {sample}: expected at least 1")
    submission = read(file)
    moves = {trace.name: trace.moves for trace in traces_of([PRESETS])}
    drawn = draw([(submission.name, moves[claim.trace]) for claim in submission.claims], sample, seed)
    chosen = [submission.claims[index] for index in drawn.chosen]
    with submission.file.on_disk() as entrant:
        found = _measured(entrant, chosen, threads, limits or Limits(), progress)
    for claim, figures in zip(chosen, found, strict=True):
        for key, said in claim.figures.items():
            if not math.isclose(figures[key], said, rel_tol=TOLERANCE, abs_tol=1e-6):
                raise SubmissionError(
                    f"{file}: {claim.trace}, seed {claim.seed}: {key} is said to be {said:g}; run again it is "
                    f"{figures[key]:g} (ccarena {__version__} here, {submission.version} there)"
                )
    return submission, drawn


def keep(submission: Submission, folder: Path) -> Path:
    """Writes the entrant to `folder` under the submission's name, for `ccarena leaderboard run --policies`."""
    file = folder / f"{submission.name}{submission.file.suffix}"
    write_atomically(file, submission.file.data)
    return file


def _measured(
    entrant: Path, claims: Sequence[Claim], threads: int, limits: Limits, progress: Progress | None
) -> list[dict[str, float]]:
    done = 0

    def one(claim: Claim) -> dict[str, float]:
        nonlocal done
        figures = figures_of(entrant.resolve(), claim, limits)
        done += 1
        if progress is not None:
            progress(done, len(claims))
        return figures

    run: Callable[[Claim], dict[str, float]] = one
    with pool_of(threads) as pool:
        return list(pool.map(run, claims))


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
