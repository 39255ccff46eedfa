"""Origin of an environment's episodes: its link distribution, or one scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ccarena.configs.link_distribution import distribution_json
from ccarena.configs.schema import TrainConfig
from ccarena.scenarios.scenario import scenario_json


def sources(
    config: TrainConfig, scenario: Mapping[str, Any] | None, whole_runs: bool = False
) -> tuple[str | None, str | None]:
    """Returns (link distribution, scenario) as JSON for `ccarena._core`, one of them None.

    It is the configuration's distribution, or the scenario. Raises what `distribution_json` raises.
    """
    return (distribution_json(config, whole_runs), None) if scenario is None else (None, scenario_json(scenario))
