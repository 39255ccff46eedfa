"""File of a submitted entrant: a policy's artifact, or a WebAssembly module. Its check and its card.

An artifact is data, which the native code checks before anything uses it. A module is a program: the native code runs
it with bounded memory and a bounded number of instructions, and it can call nothing outside.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccarena.controllers import modules
from ccarena.core.files import scratch
from ccarena.errors import CcarenaError, ConfigError
from ccarena.eval.leaderboard.checks import text
from ccarena.policies import artifact
from ccarena.policies.card import card as policy_card

__all__ = ["KINDS", "SubmittedFile"]

LARGEST_POLICY_BYTES = 8_000_000
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_PLAIN = text(200, markup=False)
"""Check of what tables and pages show of a file."""


@dataclass(frozen=True)
class _Kind:
    title: str
    suffix: str
    largest_bytes: int
    check: Callable[[Path], None]
    """Raises CcarenaError for a file that cannot be used, or with text that cannot be shown."""
    card: Callable[[Path, str], str]
    """Returns the card of a checked file with the entrant's name, in Markdown."""


def _check_policy(file: Path) -> None:
    trained = artifact.load(file)
    shown: dict[str, Any] = {"spec": trained.spec.get("name"), "trained by": trained.training.get("name")}
    each: Any
    for index, each in enumerate(trained.trained_on):
        if not isinstance(each, dict):
            raise ConfigError(f"trained_on[{index}]: expected an object with `kind`, `name` and `digest`")
        shown |= {f"trained_on[{index}].{key}": value for key, value in each.items()}
    for place, value in shown.items():
        _PLAIN("" if value is None else value, place)


def _check_module(file: Path) -> None:
    about = modules.about(file)
    for key in ("name", "summary"):
        _PLAIN(about[key], key)
    for index, param in enumerate(about["params"]):
        for key in ("name", "unit", "doc"):
            _PLAIN(param[key], f"params[{index}].{key}")


KINDS: Mapping[str, _Kind] = {
    "policy": _Kind(
        "an artifact", ".safetensors", LARGEST_POLICY_BYTES, _check_policy,
        lambda file, name: policy_card(artifact.load(file), name),
    ),
    "module": _Kind(
        "a WebAssembly module", modules.SUFFIX, modules.LARGEST_BYTES, _check_module,
        lambda file, name: modules.card(modules.about(file), name),
    ),
}  # fmt: skip
"""Kinds by the field of a submission that has the file."""


@dataclass(frozen=True)
class SubmittedFile:
    """Checked file of an entrant."""

    kind: str
    """Kind, one of `KINDS`."""
    data: bytes

    @classmethod
    def of(cls, path: Path) -> SubmittedFile:
        """Returns the file at `path`, of the kind that its suffix says, without a check."""
        (kind,) = [name for name, about in KINDS.items() if path.suffix == about.suffix] or ["policy"]
        return cls(kind, path.read_bytes())

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> SubmittedFile:
        """Returns the file in a submission's document, checked. Raises ConfigError, which begins with the field."""
        given = [kind for kind in KINDS if kind in document]
        if len(given) != 1:
            raise ConfigError(f"expected one field of {' and '.join(KINDS)}, got {len(given)}")
        (kind,) = given
        about, encoded = KINDS[kind], document[kind]
        limit = about.largest_bytes * 4 // 3 + 4
        if not isinstance(encoded, str) or len(encoded) > limit or not _BASE64.fullmatch(encoded):
            raise ConfigError(f"{kind}: expected {about.title} of at most {about.largest_bytes:,} bytes in base64")
        try:
            found = cls(kind, base64.b64decode(encoded, validate=True))
        except binascii.Error as error:
            raise ConfigError(f"{kind}: no base64: {error}") from None
        with found.on_disk() as file:
            try:
                about.check(file)
            except CcarenaError as error:
                # Without the file's name, which says nothing to whoever submitted.
                said = str(error).removeprefix(f"{file}: ")
                raise ConfigError(f"{kind}: {said}") from None
        return found

    def written(self) -> dict[str, str]:
        """Returns the field of a submission's document that has the file."""
        return {self.kind: base64.b64encode(self.data).decode()}

    @property
    def suffix(self) -> str:
        """Returns the suffix of files of its kind."""
        return KINDS[self.kind].suffix

    def card(self, name: str) -> str:
        """Returns the card of an entrant with this name, in Markdown."""
        with self.on_disk() as file:
            return KINDS[self.kind].card(file, name)

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """Writes the file under a fixed name, for as long as the block lasts."""
        with scratch() as folder:
            file = folder / f"submitted{self.suffix}"
            file.write_bytes(self.data)
            yield file
