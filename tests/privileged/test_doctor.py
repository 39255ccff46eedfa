"""`ccarena doctor --link-speed` tries the real emulated link."""

from __future__ import annotations

import re

import pytest

from ccarena.commands.doctor import link_speed

pytestmark = pytest.mark.usefixtures("kernel")


def test_a_link_is_tried_and_the_rate_or_the_reason_told() -> None:
    """Which of the two it is belongs to the machine and to whatever else it does meanwhile."""
    found = link_speed([10])
    if found.state == "ok":
        assert found.found == "valid up to 10 Mbit/s, the fastest that was tried"
    else:
        assert found.state == "limited"
        assert re.fullmatch(
            r"valid up to 0 Mbit/s; at 10 Mbit/s .* (were lost before the link|late or more)", found.found
        )
