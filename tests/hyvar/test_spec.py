"""The layouts in Python are the ones that the native schemes write."""

from __future__ import annotations

import pytest

from ccarena.hyvar import spec


def test_sizes_and_columns() -> None:
    assert spec.HYBRID.observation_size == 70 and spec.AURORA.observation_size == 30
    for layout in spec.LAYOUTS.values():
        assert layout.report_fields[layout.report.interval_ms] == "interval_ms"


@pytest.mark.parametrize("name", sorted(spec.LAYOUTS))
def test_same_as_the_native_scheme(name: str) -> None:
    core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: layouts not compared (run make)")
    layout, native = spec.LAYOUTS[name], next(scheme for scheme in core.schemes() if scheme["name"] == name)
    assert native["observation"] == layout.id
    assert native["observation_entries"] == [f"{series}[{spec.HISTORY}]" for series in layout.series]
    assert native["observation_len"] == layout.observation_size
    assert tuple(native["report"]) == layout.report_fields
    assert tuple(native["bounds"]) == layout.bounds and native["actions"] == []
