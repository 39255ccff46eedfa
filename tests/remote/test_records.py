"""Files of measured runs: they come back whole, and anything else is refused with the reason."""

from __future__ import annotations

import io
import json
import random
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: files of measured runs not tested (run make)")

from ccarena.errors import ConfigError
from ccarena.remote import records
from ccarena.remote.distance import distances
from ccarena.remote.fit import fit
from ccarena.scenarios.page import results_page
from ccarena.scenarios.tables import interval_note, table_of
from tests.remote.measured import measured

LINK = {"service": {"type": "constant", "rate_mbps": 10}, "queue": {"type": "droptail", "packets": 30}}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run."""
    folder = tmp_path_factory.mktemp("measured")
    run = measured(LINK, {"scheme": "cubic"}, seconds=2)
    records.save(folder / "runs" / "0000.npz", run, {"links": [LINK], "flows": [{"scheme": "cubic"}]})
    return folder


def test_a_run_comes_back_whole(stored: Path) -> None:
    run, [(loaded, given)] = measured(LINK, {"scheme": "cubic"}, seconds=2), records.load_folder(stored)
    assert given == {"links": [LINK], "flows": [{"scheme": "cubic"}]}
    assert (loaded.seed, loaded.backend, loaded.document) == (1, "remote", run.document)
    assert fit([loaded]) == fit([run])
    for name, values in run.result["links"][0]["log"].items():
        assert np.array_equal(loaded.result["links"][0]["log"][name], values)


def about_of(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(path) as arrays:
        found = dict(arrays)
    return json.loads(found.pop("about").tobytes()), found


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda about, _: about.update(format=9), "format 9, not 1"),
        (lambda about, _: about.pop("result"), "'result'"),
        (lambda about, _: about["result"]["links"].clear(), "expected 1, got 0"),
        (lambda about, _: about["result"]["links"][0]["log"].pop("bytes"), "'bytes'"),
        (lambda about, _: about["given"]["flows"][0].update(skeme="bbr"), "skeme"),
        (
            lambda _, arrays: arrays.update({"result.links.0.log.flow": np.full(9, 7, np.uint32)}),
            "packets are not of its flows",
        ),
        (lambda _, arrays: arrays.update({"result.links.0.log.bytes": np.array([{}], object)}), "Object arrays"),
        (lambda _, arrays: arrays.clear(), "result.flows.0"),
        (
            lambda _, arrays: arrays["result.links.0.log.departure_ns"].__setitem__(3, 2**62),
            "a packet's time is not within",
        ),
        (lambda about, _: about["result"].update(duration_s=1e12), "its duration is 1e"),
    ],
)
def test_what_is_no_run_is_refused(stored: Path, tmp_path: Path, change: Any, says: str) -> None:
    about, arrays = about_of(stored / "runs" / "0000.npz")
    change(about, arrays)
    path = tmp_path / "changed.npz"
    np.savez_compressed(path, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    with pytest.raises(ConfigError, match=rf"changed.npz: not a run that .*{says}"):
        records.load(path)


def test_damaged_files_are_refused(stored: Path, tmp_path: Path) -> None:
    whole, path = (stored / "runs" / "0000.npz").read_bytes(), tmp_path / "damaged.npz"
    draw = random.Random(1)
    for number in range(30):
        content = bytearray(whole[: draw.randrange(len(whole))] if number % 2 else whole)
        for _ in range(4):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(content)
        try:
            run, given = records.load(path)
            found = fit([run])
            distances(found, [(run, given)])
        except ConfigError as error:
            assert str(path) in str(error)


def test_runs_of_two_scenarios_are_not_fitted_together(stored: Path, tmp_path: Path) -> None:
    shutil.copytree(stored, tmp_path / "both")
    run = measured(LINK, {"scheme": "cubic"}, seconds=3)
    records.save(tmp_path / "both" / "runs" / "0001.npz", run, {"links": [LINK], "flows": [{"scheme": "cubic"}]})
    with pytest.raises(ConfigError, match=r"0001\.npz: a run of another scenario or direction than 0000\.npz"):
        records.load_folder(tmp_path / "both")


def test_an_archive_that_grows_without_end_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for number in range(records.MOST_ARRAYS + 1):
            archive.writestr(f"a{number}.npy", b"")
    path = tmp_path / "many.npz"
    path.write_bytes(buffer.getvalue())
    with pytest.raises(ConfigError, match="more than 10,000 arrays"):
        records.load(path)
    with pytest.raises(ConfigError, match="has no runs"):
        records.load_folder(tmp_path)


def test_entrants_of_one_scheme_have_a_row_each_in_one_table() -> None:
    slow, fast = (
        measured({**LINK, "service": {"type": "constant", "rate_mbps": mbps}}, {"scheme": "cubic"}) for mbps in (4, 8)
    )
    both = {"direction": "forward"}
    runs = [replace(slow, axes={**both, "entrant": "a"}), replace(fast, axes={**both, "entrant": "b"})]
    head, cells = table_of([*runs, replace(runs[0], seed=2)])
    at = head.index("Throughput (Mbit/s)")
    assert head[:4] == ["entrant", "flow", "scheme", "link"]
    assert [row[:4] for row in cells] == [["a", "flow0", "cubic", "path"], ["b", "flow0", "cubic", "path"]]
    assert [round(float(row[at].split()[0])) for row in cells] == [4, 8]
    assert interval_note([*runs, replace(runs[0], seed=2)]).startswith("Intervals are over 1 to 2 runs, so few")
    assert table_of(runs[:1])[0][0] == "flow", "the only entrant has no column"
    assert "a: flow0 (cubic) got " in str(results_page(runs, "page").findings)
