"""`ccarena doctor --link-speed` tries the real emulated link."""

from __future__ import annotations

import pytest

from ccarena.doctor import link_speed

pytestmark = pytest.mark.usefixtures("kernel")


def test_a_slow_link_is_valid() -> None:
    found = link_speed([10])
    assert (found.state, found.found) == ("ok", "valid up to 10 Mbit/s, the fastest that was tried")
