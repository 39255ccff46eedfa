"""Reader of all files from outside: bounded in size, and strict about syntax.

Scenarios, configurations, suites, search spaces and specs are read with it. JSON goes through a JSON parser; everything
else is YAML with the scalars of YAML 1.2. The reader refuses what other YAML readers interpret differently (a repeated
key, `010`, `1:30`, a tag), and says where it is.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import stat
import time
from collections.abc import Iterator
from errno import EFBIG, EINVAL, EISDIR, ETIMEDOUT
from math import isfinite
from typing import Any

import yaml

from ccarena.errors import ConfigError

__all__ = ["COMMAND_LINE", "parse", "parse_json", "parse_yaml", "read_bytes", "read_data"]

COMMAND_LINE = "command line"
LARGEST_DOCUMENT_BYTES = 16_000_000
LARGEST_POLICY_BYTES = 64_000_000
LARGEST_TRACE_BYTES = 256_000_000
MOST_DEPTH = 127
"""The deepest nesting of lists and mappings, in JSON (a limit of the parser) as in YAML."""
MOST_REPEATED = 100_000
"""Most values and characters that all aliases of a YAML file may repeat together."""
MOST_KEY = 1000
"""Most characters of a key of a YAML mapping."""
WHOLE = -(2**63), 2**64 - 1
"""Least and most whole number: what 64 bits of Rust hold, with and without a sign."""
PIPE_S = 5.0
"""Longest wait for the end of a pipe, s."""
_CHUNK = 1 << 20


def read_data(path: str | os.PathLike[str], expected: str | None = None) -> Any:
    """Returns the data in a JSON file (named `.json`) or a YAML file. Raises OSError, and ConfigError as
    `parse` does.

    `expected`: what the file should hold. With it, a file that cannot be read or is empty raises ConfigError, too.
    """
    try:
        data = parse(read_bytes(path), os.fspath(path))
    except OSError as error:
        if expected is None:
            raise
        raise ConfigError(f"{os.fspath(path)}: cannot be read: {error.strerror}; expected {expected}") from error
    if data is None and expected is not None:
        raise ConfigError(f"{os.fspath(path)}: is empty; expected {expected}")
    return data


def parse(text: str | bytes, origin: str) -> Any:
    """Returns the data in `text`. `origin` is its file: errors begin with it, and the suffix `.json` means JSON.

    Raises ConfigError with file, line, column and reason.
    """
    return parse_json(text, origin) if origin.endswith(".json") else parse_yaml(text, origin)


def read_bytes(path: str | os.PathLike[str], most: int = LARGEST_DOCUMENT_BYTES) -> bytes:
    """Returns the contents of a file, or of a pipe, of at most `most` bytes.

    Raises OSError if it cannot be read, is longer, is a folder or a device, or if a pipe does not end within `PIPE_S`.
    """
    # Without blocking: opening a named pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(handle)
        if stat.S_ISDIR(about.st_mode):
            raise OSError(EISDIR, "it is a folder; expected a file", os.fspath(path))
        is_pipe, until = stat.S_ISFIFO(about.st_mode), time.monotonic() + PIPE_S
        if not (stat.S_ISREG(about.st_mode) or is_pipe):
            raise OSError(EINVAL, "it is a device; expected a file", os.fspath(path))
        size = about.st_size
        found = bytearray()
        while size <= most:
            if is_pipe and not select.select([handle], [], [], max(0.0, until - time.monotonic()))[0]:
                raise OSError(ETIMEDOUT, f"the pipe did not end within {PIPE_S:g} s", os.fspath(path))
            chunk = os.read(handle, _CHUNK)
            if not chunk:
                return bytes(found)
            found += chunk
            size = len(found)
        raise OSError(EFBIG, f"it has {size:,} bytes or more; expected at most {most:,}", os.fspath(path))
    finally:
        os.close(handle)


def parse_json(text: str | bytes, origin: str) -> Any:
    """Returns the data in JSON text. Raises ConfigError for wrong syntax and for a repeated key."""
    from ccarena import _core

    text = _decoded(text, origin, "JSON")
    _core.check_json(text, origin)

    def whole(digits: str) -> int:
        if (number := _whole(digits)) is not None:
            return number
        at = next(found.start() for found in _JSON_SCALAR.finditer(text) if found[0] == digits)
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        raise ConfigError(f"{origin}: not JSON: {_too_long(digits)} at line {line} column {column}")

    return json.loads(text, parse_int=whole)


_JSON_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.\w]+')


def parse_yaml(text: str | bytes, origin: str) -> Any:
    """Returns the data in one YAML document, None if it is empty. Raises ConfigError with file, line, column and
    reason.
    """
    try:
        text = _decoded(text, origin, "YAML")
        return _Yaml(text).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = ""
        if mark is not None and not origin.startswith(COMMAND_LINE):
            place = f", line {mark.line + 1}, column {mark.column + 1}"
        why = error.problem or error.context
        no_token = error.problem == "found character that cannot start any token"
        if no_token and mark is not None and isinstance(text, str) and _indented_by_tab(text, mark.line):
            why = "a tab indents the line; indent with spaces"
        raise ConfigError(f"{origin}{place}: not valid YAML: {why}") from error
    except yaml.reader.ReaderError as error:  # what stands for no character, or for none of YAML's
        raise ConfigError(f"{origin}: not a YAML text file: {str(error).splitlines()[0]}") from error


def _indented_by_tab(text: str, number: int) -> bool:
    """Returns whether the line with this number, from 0, begins with white space that holds a tab."""
    line = next(itertools.islice(text.split("\n"), number, None), "")
    return "\t" in line[: len(line) - len(line.lstrip())]


def _decoded(text: str | bytes, origin: str, kind: str) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{origin}, line {line}: not a text file (byte 0x{text[error.start]:02x}); expected {kind} in UTF-8"
        ) from None


class _Yaml:
    """Builder of data from the events of PyYAML's parser. PyYAML's own composer and constructor would expand aliases,
    follow tags and take the last of two equal keys.
    """

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        """Values and their sizes; None while the value is being read."""
        self._size = 0
        self._repeated = 0

    def document(self) -> Any:
        next(self._events)  # the stream's start
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events), 0)
        next(self._events)  # the document's end
        if not isinstance(event := next(self._events), yaml.StreamEndEvent):
            raise _refused("a second document; expected one", event)
        return value

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        if event.tag is not None:
            raise _refused(f"the tag {event.tag!r}; leave tags (!...) out", event)
        if event.anchor is not None:
            if event.anchor in self._anchors:
                raise _refused(f"the anchor &{event.anchor} is there twice", event)
            self._anchors[event.anchor] = None
        before = self._size
        self._size += 1
        if isinstance(event, yaml.ScalarEvent):
            self._size += len(event.value)
            value = event.value if event.style else _scalar(event.value, event)
        elif depth >= MOST_DEPTH:
            raise _too_deep(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(depth + 1)
        else:
            value = self._mapping(depth + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._size - before)
        return value

    def _sequence(self, depth: int) -> list[Any]:
        items = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, depth))
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._value(event, depth)
            if not isinstance(key, str):
                raise _refused(f"the key {_short(key)} is not text", event)
            if len(key) > MOST_KEY:
                raise _refused(f"a key of {len(key):,} characters; expected at most {MOST_KEY}", event)
            if key in mapping:
                raise _refused(f'the key "{_short(key)[1:-1]}" is there twice', event)
            mapping[key] = self._value(next(self._events), depth)
        return mapping

    def _alias(self, event: Any, depth: int) -> Any:
        if event.anchor not in self._anchors:
            raise _refused(f"the alias *{event.anchor} has no anchor before it", event)
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise _refused(f"the alias *{event.anchor} stands within its own value", event)
        value, size = anchored
        self._size += size
        self._repeated += size
        if self._repeated > MOST_REPEATED:
            raise _refused(f"aliases repeat more than {MOST_REPEATED:,} values and characters; write them out", event)
        if depth + _depth(value) > MOST_DEPTH:
            raise _too_deep(event)
        return _copy(value)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _refused(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _too_deep(event: Any) -> yaml.MarkedYAMLError:
    return _refused(f"nested too deeply; expected at most {MOST_DEPTH} levels", event)


_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9_]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_AMBIGUOUS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Octal or decimal with leading zeros, for YAML 1.1, YAML 1.2 and JSON each something else.
    (re.compile(r"[-+]?0[0-9_]+(\.[0-9_]*)?([eE][-+]?[0-9]+)?"), "leave the leading zeros out, or quote it as text"),
    (re.compile(r"[-+]?0(o[0-7_]+|x[0-9a-fA-F_]+|b[01_]+)"), "write the number in decimal, or quote it as text"),
    # Base 60 in YAML 1.1.
    (re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"), "write the number in decimal, or quote it as text"),
)


def _scalar(text: str, event: Any) -> Any:
    """Reads an unquoted `text` by YAML 1.2: `1e-4` is a number, `no` and `2024-01-01` are text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789":
        return text
    if _INT.fullmatch(text):
        digits = text.replace("_", "")
        if (whole := _whole(digits)) is None:
            raise _refused(_too_long(digits), event)
        return whole
    if _FLOAT.fullmatch(text):
        if not isfinite(number := float(text.replace("_", ""))):
            raise _refused(f"{_short(text)[1:-1]} is beyond the range of numbers", event)
        return number
    if _NOT_FINITE.fullmatch(text):
        raise _refused(f"{text} is not a finite number", event)
    for pattern, instead in _AMBIGUOUS:
        if pattern.fullmatch(text):
            raise _refused(f"{_short(text)[1:-1]} is not read alike by all readers of YAML; {instead}", event)
    return text


def _whole(digits: str) -> int | None:
    """Returns the whole number, or None if it is beyond `WHOLE`."""
    if len(digits) > len(str(WHOLE[1])) + 1:  # Python's own limit of digits raises ValueError
        return None
    number = int(digits)
    return number if WHOLE[0] <= number <= WHOLE[1] else None


def _too_long(digits: str) -> str:
    return f"a whole number of {len(digits.strip('-+'))} digits; expected {WHOLE[0]} to {WHOLE[1]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
