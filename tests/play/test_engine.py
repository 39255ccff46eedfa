"""The script that pages speak to the simulator with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.play.conftest import Node


def test_it_refuses_runs_in_steps_and_survives_a_panic(node: Node) -> None:
    node("check_engine.mjs", "")
