"""docs/measurements.json is the only place of measured figures: it merges, and pages are what it renders to."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bench import growth, page, simulator, stale
from bench.sheet import Sheet
from bench.simulator import GROWTH
from ccarena import __version__
from ccarena.core.measurements import FILE, GROUPS, Entry, Ratio, Source, Target, load, machine, merge, version
from ccarena.errors import ConfigError

ROOT = Path(__file__).parents[2]
SOURCE = Source("make bench", "0.1.0", "2026-01-02", {"cpu": "A CPU", "cores": 2, "kernel": "6.18"})


def entry(name: str, value: float = 1.0, **more: object) -> Entry:
    return Entry(name, "simulator", f"what {name} is", value, SOURCE, **more)  # type: ignore[arg-type]


def test_the_page_is_what_the_file_says() -> None:
    """Its marks of stale figures are those of the day on which it was written."""
    written, now = (ROOT / page.PAGE).read_text("utf-8"), page.page(load(ROOT / FILE))
    marks = re.compile(rf"(?<=\d\])[{stale.CHANGED}{stale.UNKNOWN}]")
    assert marks.sub("", written) == marks.sub("", now), "run `make measurements`"


def test_a_figure_is_stale_if_the_code_that_it_measures_has_changed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True, text=True).stdout

    def marks(version: str) -> list[str]:
        stale._mark.cache_clear()
        source = Source("make bench", version, "2026-01-02")
        return [stale.mark(group, source, tmp_path) for group in ("simulator", "quic")]

    for folder in ("crates/ccarena-sim/src", "crates/ccarena-quic/src", "docs"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text("before")
    assert marks("0.2.0+1234567") == ["‡", "‡"], "no repository"
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    commit = git("rev-parse", "--short=8", "HEAD").strip()
    (tmp_path / "docs/file").write_text("after")
    assert marks(f"0.2.0+{commit}") == ["", ""]
    assert marks(f"0.2.0+{commit}-dirty") == marks("0.2.0") == marks("0.2.0+0123456") == ["‡", "‡"]
    (tmp_path / "crates/ccarena-quic/src/file").write_text("after")
    assert marks(f"0.2.0+{commit}") == ["", "†"], "before a commit, too"
    git("commit", "-qam", "two")
    assert marks(f"0.2.0+{commit}") == ["", "†"]
    assert marks(f"0.1.0+{commit}-dirty") == ["‡", "†"]


def test_every_group_names_the_code_that_it_measures() -> None:
    assert stale.FOLDERS.keys() == GROUPS.keys()
    missing = {path for paths in stale.FOLDERS.values() for path in paths if not (ROOT / path).exists()}
    assert not missing


def test_a_checkouts_version_names_its_commit() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("NO GIT CHECKOUT: a version has no commit")
    assert re.fullmatch(rf"{re.escape(__version__)}\+[0-9a-f]{{8,}}(-dirty)?", version())


def test_the_figures_between_marks_are_the_files() -> None:
    pages = page.marked(ROOT)
    assert ROOT / "README.md" in pages
    for path in pages:
        text = path.read_text("utf-8")
        for mark in (stale.CHANGED, stale.UNKNOWN):  # they depend on what else is in the clone
            text = text.replace(f"{mark}<!-- /measured -->", "<!-- /measured -->")
        assert text == page.filled(text, load(ROOT / FILE), path.name), "run `make measurements`"


def test_the_readme_marks_what_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale, "mark", lambda *_: stale.CHANGED)
    text = "<!-- measured:a --><!-- /measured -->, <!-- measured:a:machine --><!-- /measured -->"
    shown = page.filled(text, [entry("a")], "README.md", marks=True)
    assert "†<!-- /measured -->, <!-- measured:a:machine -->" in shown and shown.count(stale.CHANGED) == 1
    assert stale.CHANGED not in page.filled(text, [entry("a")], "docs/a.md"), "pages that do not explain marks"
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"{stale.CHANGED} was measured" in readme and f"{stale.UNKNOWN} on code" in readme


def test_a_ratio_says_whether_rates_or_costs_are_compared() -> None:
    ratio = Ratio(0.5, "a bare event loop")
    growth = [
        replace(entry(f"links: {n}", ratio=ratio), what=f"links: {n}", unit="ns", table=GROWTH) for n in (1, 20, 5)
    ]
    text = page.page([replace(entry("fast", ratio=ratio), unit="M packets/s"), *growth])
    assert "| 0.5 × the rate of a bare event loop |" in text and "| 0.5 × the cost of a bare event loop |" in text
    assert text.index("links: 5") < text.index("links: 20"), "in the order of the plot"


def test_merging_replaces_by_name_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "measurements.json"
    ratio = Ratio(1.5, "another", Target(at_least=1))
    merge(path, [entry("a", target=Target(at_most=2.0)), entry("b", ratio=ratio), entry("c", table="T", case="one")])
    before = load(path)
    assert before[1].ratio == ratio and before[0].target == Target(at_most=2.0)
    merge(path, [entry("d"), entry("b", 3.0)])
    assert [(one.name, one.value) for one in load(path)] == [("a", 1.0), ("b", 3.0), ("c", 1.0), ("d", 1.0)]
    merge(path, load(path))
    assert load(path)[0] == before[0] and len(path.read_text("utf-8").splitlines()) == 9


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"sources": [], "entries": [{}]}', '{"sources": [], "entries": [{"group": "other"}]}']
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "measurements.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"measurements.json: not a file of measurements: .* restore it from git"):
        merge(path, [entry("a")])
    assert path.read_text() == text


def test_the_page_shows_targets_ratios_and_cases() -> None:
    cases = [entry("t/1", 0.5, table="T", case="one"), entry("t/2", "text", table="T", case="two")]
    cases = [Entry(**{**vars(one), "what": "both"}) for one in cases]
    text = page.page([entry("a", 9.0, unit="s", target=Target(at_most=8)), entry("b", ratio=Ratio(2, "c")), *cases])
    assert "| what a is | **9 s** | ≤ 8 s |  | [1]‡ |" in text  # version 0.1.0 names no commit
    assert "| what b is | 1 |  | 2 × c | [1]‡ |" in text
    assert "|  | one | two |\n|---|---|---|\n| both | 0.5 | text |" in text
    assert "1. `make bench`; version 0.1.0, 2026-01-02; A CPU, 2 cores, Linux 6.18\n" in text


def test_marks_are_filled_and_unknown_ones_refused() -> None:
    entries = [entry("a/b", 12345.0, unit="x/s", ratio=Ratio(0.881, "c"))]
    text = "<!-- measured:a/b -->?<!-- /measured --> and <!-- measured:a/b:ratio --><!-- /measured -->"
    text += " on <!-- measured:a/b:machine --><!-- /measured -->"
    assert re.sub("<.*?>", "", page.filled(text, entries, "a.md")) == "12,300 x/s and 0.881 × on A CPU"
    with pytest.raises(ConfigError, match=r"a.md: no measurement 'a/c'; did you mean"):
        page.filled("<!-- measured:a/c --><!-- /measured -->", entries, "a.md")


def test_the_simulators_lines_become_entries() -> None:
    sheet = Sheet(SOURCE)
    lines = [
        '{"name":"cubic","what":"1 cubic","value":19.8,"unit":"M packets/s","at_least":10.0,'
        '"ratio":{"value":1.4,"of":"a loop","at_least":0.9}}',
        '{"name":"scheme-bbr","scheme":"bbr","what":"1 bbr","value":9.0,"unit":"M packets/s"}',
        '{"name":"growth/flows/10","growth":true,"what":"flows: 10","value":70.0,"unit":"ns"}',
        '{"name":"growth/flows/2","growth":true,"what":"flows: 2","value":60.0,"unit":"ns"}',
    ]
    simulator.add(sheet, lines)
    first, second, *growing = sheet.entries
    assert first.name == "simulator/cubic" and first.ratio == Ratio(1.4, "a loop", Target(0.9))
    assert first.target == Target(10.0) and second.what == "`bbr`" and second.table == simulator.SCHEMES
    assert growth.curve(growing, "flows") == [(2, 60.0), (10, 70.0)]
    assert f"![{simulator.GROWTH}](images/{growth.IMAGE.name})" in page.page(growing)


def test_only_one_build_of_the_simulator_is_judged() -> None:
    sheet = Sheet(SOURCE)
    line = '{"name":"a","what":"a","value":2.0,"unit":"","at_least":3.0,"ratio":{"value":1.0,"of":"b","at_least":2.0}}'
    simulator.add(sheet, [line], judged=False)
    simulator.add(sheet, [line], prefix="guided/", table=simulator.GUIDED)
    ordinary, judged = sheet.entries
    assert (ordinary.name, ordinary.target, ordinary.ratio) == ("simulator/a", None, Ratio(1.0, "b"))
    assert (judged.name, judged.target, judged.table) == ("simulator/guided/a", Target(3.0), simulator.GUIDED)
    assert judged.ratio == Ratio(1.0, "b", Target(2.0))


def test_a_machine_is_described() -> None:
    about = machine()
    assert about["cpu"] and about["cores"] >= 1 and about["kernel"]
