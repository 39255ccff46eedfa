"""Finds the shipped learned schemes: each is a folder of the package with a spec, and nothing else lists them.

| in `ccarena/NAME/` | what it is |
|---|---|
| `spec.json` | the spec, docs/learned.md |
| `rewards.py` | optional: a reward of its own, the function or class NAME |
| `policies/` | optional: trained policies, each `POLICY.safetensors` with its card, `POLICY.md` |

Its configurations are in `ccarena/configs`, one of them called NAME.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import ccarena

__all__ = ["POLICIES", "LearnedScheme", "learned_schemes", "shipped_policies", "specs"]

SPEC, REWARDS, POLICIES = "spec.json", "rewards.py", "policies"


@dataclass(frozen=True)
class LearnedScheme:
    """A shipped learned scheme."""

    folder: Path
    """Folder of its spec, reward and policies."""

    @property
    def name(self) -> str:
        """Name of the scheme, its spec and its configuration."""
        return self.folder.name

    @property
    def environment(self) -> str:
        """Name in ids of environments: `ccarena/ENVIRONMENT-v0`."""
        return self.name.capitalize()

    @property
    def spec(self) -> str:
        """Spec as JSON."""
        return _text(self.folder / SPEC)

    @property
    def reward(self) -> str | None:
        """`MODULE:NAME` of its own reward, if it has one."""
        has_one = (self.folder / REWARDS).is_file()
        return f"{ccarena.__name__}.{self.name}.rewards:{self.name}" if has_one else None

    @property
    def policies(self) -> dict[str, Path]:
        """Trained policies by name."""
        return {path.stem: path for path in sorted((self.folder / POLICIES).glob("*.safetensors"))}


def learned_schemes() -> dict[str, LearnedScheme]:
    """Returns every shipped learned scheme by its name."""
    specs = sorted(path for root in ccarena.__path__ for path in Path(root).glob(f"*/{SPEC}"))
    return {path.parent.name: LearnedScheme(path.parent) for path in specs}


def specs() -> dict[str, str]:
    """Returns the specs of all shipped learned schemes as JSON, by name."""
    return {name: scheme.spec for name, scheme in learned_schemes().items()}


def shipped_policies() -> dict[str, Path]:
    """Returns the policies of all shipped learned schemes, by name."""
    found = {name: path for scheme in learned_schemes().values() for name, path in scheme.policies.items()}
    return dict(sorted(found.items()))


@functools.cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")
