"""Submissions: one file with a policy or a module, its card and its claimed scores, and the check of such files.

A submission is one JSON document, the entrant's file in base64 (`submitted_file`). Nothing is packed or unpacked, and
no name in it becomes a path. All text that is shown to others is plain and of bounded length. `trial` repeats the
claims in a process with limited time and memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ccarena import __version__
from ccarena.core.files import write_atomically
from ccarena.core.reader import parse_json
from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.leaderboard.checks import Check, anything, fields, number, one_of, text
from ccarena.eval.leaderboard.figures import SCORE, ranges, solo
from ccarena.eval.leaderboard.links import PRESETS, Place, places, traces_of
from ccarena.eval.leaderboard.submitted_file import KINDS, SubmittedFile

__all__ = ["FORMAT", "LARGEST_BYTES", "Claim", "Submission", "SubmissionError", "read", "where", "write"]

FORMAT = 1
LARGEST_BYTES = 16_000_000
"""Largest submission file."""
MOST_CLAIMS = 10_000
LONGEST_TEXT = 2_000
LONGEST_RUN_S = 600.0
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
NUMBERS: dict[str, Check] = {
    "delay_ms": number(0.1, 1_000.0),
    "buffer_packets": number(1, 10_000, whole=True),
    "duration_s": number(1.0, LONGEST_RUN_S),
    "seed": number(0, 1_000_000, whole=True),
}
"""Checks of a claim's numbers."""


class SubmissionError(ConfigError):
    """Submission that is refused: damaged, hostile, or with false claims."""


@dataclass(frozen=True)
class Claim:
    """Claimed figures of an entrant on one link with one seed."""

    trace: str
    """Name of a generated trace, available to everybody."""
    delay_ms: float
    buffer_packets: int
    duration_s: float
    seed: int
    figures: dict[str, float]
    """Figures by the names of `figures.solo`."""


@dataclass(frozen=True)
class Submission:
    """Checked submission."""

    name: str
    author: str
    note: str
    version: str
    """Version of the package that measured the claims."""
    file: SubmittedFile
    claims: tuple[Claim, ...]

    def card(self) -> str:
        """Returns the entrant's card, from its file alone: a submission's own text is not trusted."""
        return self.file.card(self.name)


def where(claims: Sequence[Claim]) -> list[tuple[Place, int]]:
    """Returns the link and the seed of each claim. Raises SubmissionError if there is no such link."""
    out = []
    for claim in claims:
        try:
            (place,) = places(traces_of([claim.trace]), [claim.delay_ms], [claim.buffer_packets], claim.duration_s)
        except (CcarenaError, ValueError) as error:
            raise SubmissionError(f"claims: {error}") from error
        out.append((place, claim.seed))
    return out


def write(submission: Submission, out: Path) -> None:
    """Writes the file, after checking it as a reader would. Raises SubmissionError or ConfigError."""
    write_atomically(out, checked_text(submission) + "\n")


def checked_text(submission: Submission) -> str:
    """Returns the file's text, checked as a reader would. Raises SubmissionError for a wrong one."""
    written = json.dumps(
        {
            "ccarena_submission": FORMAT,
            **{key: getattr(submission, key) for key in ("name", "author", "note", "version")},
            "card": submission.card(),
            **submission.file.written(),
            "claims": [asdict(claim) for claim in submission.claims],
        },
        indent=1,
        ensure_ascii=False,
        allow_nan=False,
    )
    check(written)
    return written


def read(file: Path) -> Submission:
    """Reads and checks a submission's file. Raises SubmissionError, naming the fault and the expectation."""
    try:
        size = file.stat().st_size
        if size > LARGEST_BYTES or not file.is_file():
            raise SubmissionError(f"{file}: {size:,} bytes; expected a file of at most {LARGEST_BYTES:,} bytes")
        data = file.read_bytes()
    except OSError as error:
        raise SubmissionError(f"{file}: cannot be read: {error.strerror}; expected a submission") from error
    try:
        return check(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SubmissionError(
            f"{file}: not a submission: byte {error.start} is no UTF-8; expected the JSON of `leaderboard submit`, and "
            "no archive"
        ) from error
    except CcarenaError as error:
        raise SubmissionError(f"{file}: {error}") from error


def check(written: str) -> Submission:
    """Returns the submission in a file's text. Raises SubmissionError."""
    try:
        return _checked(written)
    except SubmissionError:
        raise
    except ConfigError as error:  # of a single value
        raise SubmissionError(str(error)) from None


def _checked(written: str) -> Submission:
    try:
        document = parse_json(written, "not a submission")
    except ConfigError as error:
        raise SubmissionError(f"{error}; expected what `leaderboard submit` writes") from None
    if not isinstance(document, dict) or document.get("ccarena_submission") != FORMAT:
        raise SubmissionError(f"not a submission: expected an object with `ccarena_submission`: {FORMAT}")
    known = {"ccarena_submission", "name", "author", "note", "version", "card", *KINDS, "claims"}
    if unknown := sorted(document.keys() - known):
        raise SubmissionError(f"unknown field {unknown[0][:60]!r}; expected {', '.join(sorted(known))}")
    name = document.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SubmissionError(
            f"name: got {str(name)[:60]!r}; expected 1 to 40 of a-z, 0-9, '.', '_' and '-', the first a letter or digit"
        )
    plain = text(LONGEST_TEXT, markup=False)
    texts = {key: plain(document.get(key, ""), key) for key in ("author", "note", "version")}
    # Shown nowhere: the reader's own is made from the entrant's file.
    text(100_000)(document.get("card", ""), "card")
    file = SubmittedFile.read(document)
    claims = document.get("claims")
    if not isinstance(claims, list) or not 1 <= len(claims) <= MOST_CLAIMS:
        raise SubmissionError(f"claims: expected a list of 1 to {MOST_CLAIMS:,} runs")
    traces = [trace.name for trace in traces_of([PRESETS])]
    found = tuple(_claim(each, f"claims[{index}]", traces) for index, each in enumerate(claims))
    first: dict[tuple[object, ...], int] = {}
    for index, claim in enumerate(found):
        link = (claim.trace, claim.delay_ms, claim.buffer_packets, claim.duration_s, claim.seed)
        if (before := first.setdefault(link, index)) != index:
            raise SubmissionError(f"claims[{index}]: names the link and seed of claims[{before}]; expected each once")
    return Submission(name, texts["author"], texts["note"], texts["version"] or __version__, file, found)


def _claim(each: Any, at: str, known: Sequence[str]) -> Claim:
    checks = {"trace": one_of(known), **NUMBERS, "figures": anything}
    if not isinstance(each, dict) or each.keys() != checks.keys():
        raise SubmissionError(f"{at}: expected an object with {', '.join(sorted(checks))}")
    claim = Claim(**fields(each, at, checks))
    figures = claim.figures
    if not isinstance(figures, dict) or figures.keys() - set(solo()) or SCORE not in figures:
        raise SubmissionError(f"{at}.figures: expected `{SCORE}` and other figures of {', '.join(solo())}")
    return replace(claim, figures=fields(figures, f"{at}.figures", {k: v for k, v in ranges().items() if k in figures}))
