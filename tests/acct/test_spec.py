"""The layout in Python is the one that the native scheme writes."""

from __future__ import annotations

import pytest

from ccarena.acct import spec


def test_layout() -> None:
    assert len(spec.ACTIONS) == 15
    assert spec.OBSERVATION_SIZE == 58
    assert spec.SERIES_SLICES["zone"] == slice(16, 48)
    assert spec.SCALAR_SLICE == slice(56, 58)
    assert spec.REPORT_FIELDS[spec.REPORT.queueing_delay_ms] == "queueing_delay_ms"


def test_same_as_the_native_scheme() -> None:
    core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: layouts not compared (run make)")
    acct = next(scheme for scheme in core.schemes() if scheme["name"] == "acct")
    assert acct["observation"] == spec.OBSERVATION_ID
    assert tuple(acct["actions"]) == spec.ACTIONS
    assert tuple(acct["report"]) == spec.REPORT_FIELDS
    assert acct["observation_len"] == spec.OBSERVATION_SIZE
    zones = [f"zone_{zone.name.lower()}[8]" for zone in spec.Zone]
    series = ["throughput_MBps[8]", "delay_ratio[8]", *zones, "window_ratio[8]"]
    assert acct["observation_entries"] == [*series, *spec.SCALARS]
