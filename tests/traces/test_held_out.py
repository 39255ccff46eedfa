"""What is trained on and what is tested: presets count as the recordings that they were fitted to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccarena import _core
from ccarena.configs import load_config
from ccarena.configs.link_distribution import distribution_json, trained_on, without_carrier
from ccarena.configs.schema import LinkKinds
from ccarena.core.files import digest
from ccarena.errors import ConfigError
from ccarena.eval.heldout.links import Link, build
from ccarena.traces.held_out import HELD_OUT, ORIGINS, VALIDATION, carrier_of, derives_from, free
from ccarena.traces.manifest import manifest
from ccarena.traces.recorded import seen_in_training


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number, name in enumerate((*HELD_OUT, *VALIDATION, "trace-3114405-bus", "TMobile-UMTS-driving.down")):
        (tmp_path / name).write_text(f"{number + 1}\n9000\n")
    monkeypatch.setenv("CCARENA_TRACE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    return tmp_path


def services(links: list[Link]) -> list[dict[str, Any]]:
    return [service for link in links for service in link.services]


def test_every_preset_that_was_fitted_has_a_public_recording_as_its_origin() -> None:
    presets = {preset["name"]: preset for preset in _core.cellular_presets()}
    assert {name for name, preset in presets.items() if preset["published"] is not None} == ORIGINS.keys()
    assert set(ORIGINS.values()) | set(HELD_OUT) | set(VALIDATION) <= {entry.name for entry in manifest()}
    assert not set(HELD_OUT) & set(VALIDATION)


def test_training_draws_from_nothing_that_is_tested(recordings: Path) -> None:
    config = load_config("acct", {"env.link.kinds.trace": 1})
    link = json.loads(distribution_json(config))["link"]
    drawn = [*link["presets"], *(Path(file).name for file in link["traces"])]
    assert {derives_from(name) for name in drawn}.isdisjoint({*HELD_OUT, *VALIDATION})
    assert "lte-bus" in drawn and "trace-3114405-bus" in drawn
    assert free(["lte-driving", "lte-bus", VALIDATION[0]]) == ["lte-bus"]
    assert seen_in_training(trained_on(config), services(build(["cellular"], 1, 1.0))) == []


def test_what_was_trained_on_tested_links_is_found_by_name_preset_and_content(recordings: Path) -> None:
    links = build(["cellular", "constant"], 1, 1.0)
    renamed = digest((recordings / HELD_OUT[2]).read_bytes())
    seen = [
        {"kind": "preset", "name": "lte-driving", "digest": "0"},
        {"kind": "trace", "name": "mine", "digest": renamed},
        {"kind": "trace", "name": "trace-3114405-bus", "digest": "1"},
    ]
    assert seen_in_training(seen, services(links)) == sorted((HELD_OUT[0], HELD_OUT[2]))


def test_one_carrier_is_left_out(recordings: Path) -> None:
    config = without_carrier(load_config("acct"), "verizon")
    link = config.env.link
    assert isinstance(link.traces, list) and isinstance(link.presets, list)
    assert not any(carrier_of(name) == "verizon" for name in (*link.traces, *link.presets))
    assert "ATT-LTE-driving.down" in link.traces and "lte-driving-att" in link.presets
    assert VALIDATION[0] not in link.traces
    assert {carrier_of(name) for name in config.eval.recordings} == {"verizon"}
    assert config.name == "acct-without-verizon"
    known = config.model_copy(
        update={"env": config.env.model_copy(update={"link": link.model_copy(update={"kinds": LinkKinds(trace=1)})})}
    )
    tested = build(["cellular"], 1, 1.0, config.eval.recordings)
    assert (
        len(tested) == 2 * len(config.eval.recordings) and seen_in_training(trained_on(known), services(tested)) == []
    )
    with pytest.raises(ConfigError, match='unknown carrier "verison"; did you mean "verizon"'):
        without_carrier(load_config("acct"), "verison")
