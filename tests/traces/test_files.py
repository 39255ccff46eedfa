"""Reading, checking, finding and writing traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccarena.errors import TraceError
from ccarena.traces import describe, files
from ccarena.traces.stats import Counter


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "t: the trace is empty"),
        (b"\n", "t:1: the line is empty"),
        (b"1\n\n3\n", "t:2: the line is empty"),
        (b"5\n4\n", "t:2: 4 ms comes after 5 ms"),
        (b"0\n0\n", "t:2: the trace lasts 0 ms"),
        (b"1\r\n2\r\n", "t:1: the line ends in CR LF"),
        (b"1\n2\r\n", "t:2: the line ends in CR LF"),
        (b"1\nnan\n", 't:2: "nan" is not a delivery time'),
        (b"1\n2.5\n", 't:2: "2.5" is not a delivery time'),
        (b"1\n-2\n", 't:2: "-2" is not a delivery time'),
        (b"1\n2 3\n", 't:2: "2 3" is not a delivery time: this is a table'),
        (b"1\n4294967296\n", "t:2: 4294967296 ms; expected 0 to 4294967295 ms"),
        (b"1\n" + b"9" * 30 + b"\n", "t:2: the number has 30 digits"),
        (b"\x1f\x8b\x08\x00", "t:1: the trace holds the byte 0x1f"),
        (b"1\n\x00\n", "t:2: the trace holds the byte 0x00"),
        (b"1\n\xff\xfe\n", "t:2: the trace holds the byte 0xff"),
    ],
)
def test_what_is_not_a_trace_is_refused_with_its_line(data: bytes, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        files.parse(data, "t")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "times", [[], [1.0, np.nan], [1.0, np.inf], [1.5], [-1, 2], [2, 1], [0], [2**32], ["1"], [[1]]]
)
def test_arrays_that_are_no_trace_are_refused(times: list[object]) -> None:
    with pytest.raises(TraceError):
        files.check(np.asarray(times), "t")


@given(st.binary(max_size=60))
def test_any_bytes_give_a_trace_or_a_trace_error(data: bytes) -> None:
    try:
        times = files.parse(data, "t")
    except TraceError:
        return
    assert times.dtype == np.uint32
    assert times[-1] > 0
    assert (np.diff(times.astype(np.int64)) >= 0).all()


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1).map(sorted).filter(lambda times: times[-1] > 0))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, times: list[int]) -> None:
    path = files.save(tmp_path_factory.mktemp("t") / "new" / "trace", times)
    assert files.load(path).tolist() == times
    assert [p.name for p in path.parent.iterdir()] == ["trace"]


@given(st.lists(st.integers(0, 3000), min_size=1).map(sorted).filter(lambda times: times[-1] > 0), st.integers(1, 9))
def test_chunks_are_the_whole(tmp_path_factory: pytest.TempPathFactory, times: list[int], size: int) -> None:
    path = tmp_path_factory.mktemp("t") / "trace"
    path.write_text("\n".join(map(str, times)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_CHUNK", size)
        assert [ms for chunk in files.chunks(path) for ms in chunk] == times
        counter = Counter()
        for chunk in files.chunks(path):
            counter.add(chunk)
    assert counter.stats().to_dict() == describe(times).to_dict()


def test_faults_beyond_the_first_chunk_are_named(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CHUNK", 4)
    for text, message in (
        ("1\n2\n3\n2\n", "t:4: 2 ms comes after 3 ms"),
        ("1\n2\n3\n\n", "t:4: the line is empty"),
        ("1\n2\n3\nx\n", 't:4: "x" is not a delivery time'),
        ("1\n" + "7" * 100, "t:2: the number has"),
        ("0\n0\n0\n", "t:3: the trace lasts 0 ms"),
    ):
        (tmp_path / "t").write_text(text)
        with pytest.raises(TraceError, match=message):
            files.load(tmp_path / "t")


def test_a_trace_that_cannot_be_whole_is_not_written(tmp_path) -> None:
    def broken():
        yield np.array([1, 2], dtype=np.uint32)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path / "t", broken())
    assert list(tmp_path.iterdir()) == []


def test_a_missing_newline_at_the_end_is_accepted() -> None:
    assert files.parse(b"1\n7", "t").tolist() == [1, 7]


def test_names_are_looked_up_in_order(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, home = tmp_path / "first", tmp_path / "second", tmp_path / "home"
    for folder, ms in (
        (first / "set", 1),
        (second, 2),
        (tmp_path / "traces", 3),
        (home / "ccarena" / "traces" / "s", 4),
    ):
        for name in {1: ["a"], 2: ["a", "b"], 3: ["a", "b", "c"], 4: ["a", "b", "c", "d"]}[ms]:
            files.save(folder / name, [ms])
    (first / "notes.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CCARENA_TRACE_DIR", f"{first}:{second}")
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    assert [files.load(name).tolist() for name in "abcd"] == [[1], [2], [3], [4]]
    assert files.find("s/d") == home / "ccarena" / "traces" / "s" / "d"
    assert sorted(files.available()) == ["a", "b", "c", "d"]
    with pytest.raises(TraceError, match="ccarena traces fetch mahimahi"):
        files.find("Verizon-LTE-short.up")
    with pytest.raises(TraceError, match='no trace "nothing"'):
        files.find("nothing")


def test_a_shared_trace_is_read_again_only_if_its_file_changes(tmp_path) -> None:
    path = tmp_path / "own.trace"
    path.write_bytes(b"1\n2\n")
    first = files.shared(path)
    assert files.shared(path) is first and not first.flags.writeable
    path.write_bytes(b"1\n2\n3\n")
    assert files.shared(path).tolist() == [1, 2, 3]
    path.unlink()
    with pytest.raises(TraceError):
        files.shared(path)
