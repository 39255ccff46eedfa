"""Token files: made once, read by both machines, refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccarena.errors import ConfigError
from ccarena.remote import token


def test_a_token_is_made_once_and_read(tmp_path: Path) -> None:
    path = tmp_path / "token.txt"
    token.make(path)
    first = token.read(path)
    token.make(path)
    assert token.read(path) == first and len(first) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    token.make(tmp_path / "other.txt")
    assert token.read(tmp_path / "other.txt") != first


@pytest.mark.parametrize("text", ["", "secret", "g" * 64, "0" * 63, "0" * 65, "\x00" * 64, "0" * 2000])
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token.txt"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"token.txt: (is no token; expected 64|cannot read)"):
        token.read(path)


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token.txt"
    token.make(path)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match=r"chmod 600"):
        token.read(path)
    with pytest.raises(ConfigError, match=r"copy the file that `ccarena remote serve"):
        token.read(tmp_path / "none.txt")
    with pytest.raises(ConfigError, match=r"cannot write"):
        token.make(tmp_path / "no folder" / "token.txt")
