"""Generator of candidates: a process that prints them as JSON lines and reads their results (docs/search.md).

    it reads   {"template": "cubic", "links": [...], "population": 24, "candidates": 480, "known": [RESULT, ...]}
    it prints  {"id": "a", "lang": "python", "program": "import ccarena\\n..."}
    it reads   {"id": "a", "number": 1, "score": -0.4, "rung": 3, "links": {"48mbps,20ms,1bdp": -0.4}, "error": null}

Batches that were printed are in the journal. A search that goes on judges these first. It then starts the process
anew, which reads their results as `known`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ccarena.core.reader import read_bytes
from ccarena.core.terminal import visible
from ccarena.errors import ConfigError, did_you_mean, excerpt
from ccarena.runs.journal import Journal
from ccarena.searches.candidates import Candidate
from ccarena.searches.programs import LANGUAGES, MOST_BYTES, Program

__all__ = ["LOG", "Outside", "check_command"]

LOG = "generator.log"
"""File of what the process writes to standard error."""
MOST_WRONG = 20
"""Lines in a row that are no candidates, after which the generator is ended."""
LONGEST_LINE = 8 * MOST_BYTES
_LEAVES_WITHIN_S = 2.0
_PAUSE_S = 5.0
"""Pause after which a batch is judged that is not full."""
_KEYS = {"id", "program", "lang", "params"}


def check_command(command: str) -> list[str]:
    """Returns the words of a command. Raises ConfigError if there is no such program."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f'generator "{command}": {error}') from error
    if not words:
        raise ConfigError("generator: expected a command, such as `python3 programs.py`")
    if shutil.which(words[0]) is None:
        raise ConfigError(f'generator "{command}": there is no program "{words[0]}"; give its path, or install it')
    return words


def program_of(line: Mapping[str, Any]) -> tuple[str, Program]:
    """Returns the name and the program of a generator's line. Raises ConfigError for anything else."""
    for key in line:
        if key not in _KEYS:
            raise ConfigError(f'unknown key "{excerpt(key)}"{did_you_mean(str(key), _KEYS)}')
    name, text, lang = str(line.get("id", "")), line.get("program"), line.get("lang", "python")
    if lang not in LANGUAGES:
        raise ConfigError(f'lang = "{excerpt(lang)}": expected {", ".join(LANGUAGES)}')
    if not isinstance(text, str) or not text.strip():
        raise ConfigError("program: expected its text")
    params = line.get("params") or {}
    if not isinstance(params, Mapping) or not all(type(each) in (int, float) for each in params.values()):
        raise ConfigError("params: expected numbers by name")
    if lang == "wasm" and len(text) < 4096 and Path(text).suffix == ".wasm":
        try:
            text = base64.b64encode(read_bytes(text, MOST_BYTES)).decode("ascii")
        except OSError as error:
            raise ConfigError(f"program: {text}: {error.strerror}") from error
    if len(text) > 2 * MOST_BYTES:
        raise ConfigError(f"program: {len(text):,} characters; expected at most {2 * MOST_BYTES:,}")
    return name[:100], Program(lang, text, {str(key): float(each) for key, each in params.items()})


class Outside:
    """Source of candidates (`ccarena.searches.run.Source`) that a process prints."""

    def __init__(
        self, command: str, about: Mapping[str, Any], population: int, silence_s: float, journal: Journal, folder: Path
    ) -> None:
        self._words, self._about, self._population = check_command(command), about, population
        self._silence_s, self._journal, self._folder = silence_s, journal, folder
        self._batch = 0
        self._known: list[Candidate] = []
        self._process: _Process | None = None
        self._over, self._ended = False, ""
        self._wrong = 0

    def ask(self, most: int) -> list[tuple[str, Program]]:
        """Returns the next batch: what was printed until it is full, an empty line, a pause, or the end."""
        key = f"batch {self._batch}"
        self._batch += 1
        stored = self._journal.rows.get(key)
        if stored is not None:
            return [(name, Program(**program)) for name, program in stored["programs"]]
        if self._process is None:
            results = [result_of(each) for each in self._known]
            self._process = _Process(self._words, self._folder)
            self._process.write({**self._about, "known": results})
        found: list[tuple[str, Program]] = []
        while len(found) < min(self._population, most) and not self._over:
            line = self._process.line(min(_PAUSE_S, self._silence_s) if found else self._silence_s)
            if line is None and found:
                break
            if not line:
                self._over = True
                self._ended = self._process.how(line is None, self._silence_s, len(self._known) > 1 or bool(found))
                break
            if not line.strip():
                if found:
                    break
                continue
            try:
                found.append(self._read(line))
                self._wrong = 0
            except ConfigError as error:
                self._refuse(line, str(error))
        if found:
            self._journal.append({"key": key, "programs": [(name, each.as_dict()) for name, each in found]})
        return found

    def tell(self, judged: Sequence[Candidate]) -> None:
        """Sends the results of the last batch, in the order of its lines."""
        for each in judged:
            if self._process is not None:
                self._process.write(result_of(each))
        self._known += judged

    def close(self) -> str:
        """Ends the process, and returns a sentence on how it ended."""
        if self._process is not None:
            self._process.end()
        return self._ended

    def _read(self, line: str) -> tuple[str, Program]:
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"no JSON: {error}") from error
        if not isinstance(data, dict):
            raise ConfigError('expected an object, such as {"id": "a", "lang": "python", "program": "..."}')
        return program_of(data)

    def _refuse(self, line: str, reason: str) -> None:
        assert self._process is not None
        self._wrong += 1
        self._process.write({"error": f"{reason}; the line was {excerpt(line.strip())}"})
        if self._wrong >= MOST_WRONG:
            last = visible(str(excerpt(line.strip())))
            self._over = True
            self._ended = (
                f"the generator was ended: {MOST_WRONG} lines in a row were no candidates, at last {last!r}: {reason}"
            )


def result_of(each: Candidate) -> dict[str, Any]:
    """Returns the line that a generator gets for a candidate."""
    return {
        "id": each.name,
        "number": each.number,
        "program": each.program.text,
        "lang": each.program.lang,
        "score": None if each.error else each.score,
        "rung": each.rung,
        "links": each.scores,
        "error": each.error or None,
    }


class _Process:
    """Process whose lines a thread reads, and to which another one writes: neither side waits for the other."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self._log = folder / LOG
        try:
            with open(self._log, "ab") as log:
                self._process = subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
                )
        except OSError as error:
            raise ConfigError(f"generator {words[0]}: cannot be started: {error.strerror}") from error
        self._lines: queue.Queue[str] = queue.Queue(maxsize=10_000)
        self._out: queue.Queue[bytes | None] = queue.Queue()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True, name="generator").start()

    def line(self, within_s: float) -> str | None:
        """Returns the next line; None if there is none within this time, and an empty text at the end."""
        try:
            return self._lines.get(timeout=within_s)
        except queue.Empty:
            return None

    def write(self, data: Mapping[str, Any]) -> None:
        """Sends a line."""
        self._out.put(json.dumps(data).encode() + b"\n")

    def how(self, silent: bool, silence_s: float, printed: bool) -> str:
        """Returns a sentence on how it ended: `silent`, or with its output; empty after an end without an error."""
        if silent:
            what = "printed nothing more" if printed else "printed nothing"
            return f"the generator {what} for {silence_s:g} s, and was ended"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        code = self._process.poll()
        if not code:
            return "" if printed else "the generator ended without a candidate"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        words = self._log.read_text("utf-8", errors="replace").strip().splitlines()
        return f"the generator {how}{f': {visible(words[-1])}' if words else ''}"

    def end(self) -> None:
        """Closes its input, and ends it with all that it has started if it stays."""
        self._out.put(None)
        try:
            self._process.wait(_LEAVES_WITHIN_S)
        except subprocess.TimeoutExpired:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_LEAVES_WITHIN_S)
                    break

    def _read(self) -> None:
        assert self._process.stdout is not None
        out: IO[bytes] = self._process.stdout
        with contextlib.suppress(OSError, ValueError):
            while data := out.readline(LONGEST_LINE):
                self._lines.put(data.decode("utf-8", errors="replace"))
        self._lines.put("")

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while (data := self._out.get()) is not None:
                self._process.stdin.write(data)
                self._process.stdin.flush()
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.close()
