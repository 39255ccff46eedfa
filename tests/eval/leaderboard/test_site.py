"""The leaderboard's pages, from files and from the server, as a browser shows them."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccarena import __version__, cli
from ccarena.eval.leaderboard.figures import SCORE, SCORES
from ccarena.eval.leaderboard.listing import rank_of, score_of
from ccarena.eval.leaderboard.repeats import Repeats
from ccarena.eval.leaderboard.run import Board, rankings_of
from ccarena.eval.leaderboard.run import run as run_board
from ccarena.eval.leaderboard.serve import make_server
from ccarena.eval.leaderboard.site import Site
from ccarena.eval.leaderboard.store import Store
from ccarena.eval.measure.table import value
from ccarena.pages import runnable
from ccarena.pages.browser import Browser, find_browser
from ccarena.policies.curve import of_progress
from ccarena.scenarios.one_run import perform

sys.path.insert(0, str(Path(__file__).parents[2] / "pages"))

from looked_at import faults, inaccessible
from pressed import need_simulator, press

ROWS = "[...document.querySelectorAll('%s .grid-rows .grid-row')].map(r => [...r.children].map(c => c.textContent))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        pytest.skip("NO BROWSER: the leaderboard's pages are not looked at (apt-get install chromium)")
    with Browser() as started:
        yield started


@pytest.fixture(scope="module")
def site(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    assert cli.main(["leaderboard", "page", str(out), "--store", str(small)]) == 0
    return out


def test_every_page_is_in_order(browser: Browser, site: Path) -> None:
    pages = {"index.html": 1, "entrant/2.html": 1, "trace/1.html": 3}
    for page, charts in pages.items():
        assert faults(browser, site / page, charts) == [], page
        for theme in ("light", "dark"):
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            browser.open(site / page)
            assert inaccessible(browser) == [], (page, theme)
    # Whatever is linked is there.
    for page in map(site.joinpath, pages):
        browser.open(page)
        links = browser.evaluate(
            "[...document.querySelectorAll('a[href], link[href], script[src]')].map(a => a.href || a.src)"
        )
        for link in links:
            assert not link.startswith("http"), "no network"
            if link.startswith("file:"):
                assert Path(link.removeprefix("file://").partition("#")[0]).is_file(), (page, link)
    assert browser.messages == []


def test_from_a_rank_to_a_cell(browser: Browser, site: Path) -> None:
    browser.open(site / "index.html")
    assert {row[0] for row in browser.evaluate(ROWS % "#every-figure")} == {"cubic", "copa", "reno"}
    assert browser.evaluate("document.querySelectorAll('#competition table.heat tbody tr').length") == 3 * 3 * 4
    cells = browser.evaluate(ROWS % "#every-cell")
    link = browser.evaluate("document.querySelector('#every-cell .grid-rows a').href")
    assert "cell.html#" in link
    browser.call("Page.navigate", url=link)
    browser.evaluate(
        "new Promise(done => { const look = () => document.querySelector('.plot .main-svg') && document.querySelector("
        "'#runs-of-cell td') ? done() : setTimeout(look, 20); look(); })"
    )
    assert cells[0][0] in browser.evaluate("document.querySelector('h1').textContent")
    assert inaccessible(browser) == []
    assert browser.evaluate("document.querySelectorAll('#runs-of-cell tbody tr').length") == 2
    pressed = "[...document.querySelectorAll('.legend [aria-pressed=true]')].map(b => b.textContent.trim())"
    assert len(browser.evaluate(pressed)) == 2, "the capacity and the entrant; the others wait for a click"
    assert browser.messages == []


RANKS = "[...document.querySelectorAll('#ranks tbody tr')].map(r => [...r.children].map(c => c.textContent))"
CHOOSE = """((id, value) => { const e = document.getElementById(id);
  if (e.type === "checkbox") e.checked = value; else e.value = value;
  e.dispatchEvent(new Event(e.type === "range" ? "input" : "change")); })"""
SAID = "document.querySelector('#ranks [role=status]').textContent"


def test_ranks_by_score_and_by_own_weights(browser: Browser, site: Path, small: Path) -> None:
    with Store(str(small), read_only=True) as store:
        label = {entrant["id"]: entrant["label"] for entrant in store.entrants()}
        wanted = {score: store.group("all traces", score) for score in SCORES}
    browser.open(site / "index.html")
    for score in SCORES:
        browser.evaluate(f"{CHOOSE}('ranks-score', '{score}')")
        shown = browser.evaluate(RANKS)
        listed = [row for row in wanted[score]["rows"] if row["rank"]]
        assert [row[1] for row in shown] == [label[row["entrant"]] for row in listed], "no baseline, no oracle"
        assert [row[0] for row in shown] == [rank_of(row) for row in listed]
        assert [row[2] for row in shown] == [score_of(row) for row in listed]
        assert ("Kendall's tau" in browser.evaluate(SAID) or "the same" in browser.evaluate(SAID)) == (score != SCORE)
        assert "Smallest visible difference" in browser.evaluate("document.querySelector('#ranks').textContent")
    browser.evaluate(f"{CHOOSE}('ranks-baselines', true)")
    browser.evaluate(f"{CHOOSE}('ranks-score', '{SCORE}')")
    assert [row[1] for row in browser.evaluate(RANKS)][3:] == ["one RTT late", "best fixed window"]
    browser.evaluate(f"{CHOOSE}('ranks-baselines', false)")
    findings = browser.evaluate("document.querySelector('#findings').textContent")
    assert "does another score change the order?" in findings and "Score, sharing, end to end: " in findings
    # The reader's weights give the named scores back, and others another order.
    browser.evaluate(f"{CHOOSE}('ranks-score', 'own')")
    for weights, score in (((1, 1, 0), SCORE), ((1, 0.25, 0), "score_throughput"), ((0.25, 1, 0), "score_delay")):
        for at, weight in enumerate(weights):
            browser.evaluate(f"{CHOOSE}('weight-{at}', {weight})")
        shown = {row[1]: float(row[2]) for row in browser.evaluate(RANKS)}
        for row in wanted[score]["rows"]:
            if row["rank"]:
                assert shown[label[row["entrant"]]] == pytest.approx(row["score"], abs=2e-3)
    browser.evaluate(f"{CHOOSE}('weight-1', 0)")
    browser.evaluate(f"{CHOOSE}('weight-2', 4)")
    assert [row[0] for row in browser.evaluate(RANKS)] == ["1", "2", "3"]
    assert "entrants change places; Kendall's tau with the default order is" in browser.evaluate(SAID)
    assert inaccessible(browser) == [] and browser.messages == []


def test_what_others_report_is_shown_apart(browser: Browser, small: Path, tmp_path: Path) -> None:
    path, table = tmp_path / "with.db", tmp_path / "theirs.csv"
    path.write_bytes(small.read_bytes())
    head = "link,entrant,throughput_mbps,delay_ms,seed,source"
    table.write_text(f"{head}\nlte,<img src=x>,4,30,1,Fig. 7\nlte,<img src=x>,5,50,2,Fig. 7\n", "utf-8")
    assert cli.main(["leaderboard", "import", "--reported", str(table), "--store", str(path)]) == 0
    with Store(str(path), read_only=True) as store, Store(str(small), read_only=True) as before:
        assert rankings_of(store) == rankings_of(before)
    assert cli.main(["leaderboard", "page", str(tmp_path / "site"), "--store", str(path)]) == 0
    assert faults(browser, tmp_path / "site" / "index.html", 1) == []
    cells = "[...document.querySelectorAll('#reported-by-others td')].map(cell => cell.textContent)"
    assert browser.evaluate(cells) == ["lte", "<img src=x>", "Fig. 7", "4.5", "40", "2"]
    assert "<img" not in browser.evaluate("document.querySelector('#ranks').textContent")


def test_names_are_text(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "named.db"
    path.write_bytes(small.read_bytes())
    with sqlite3.connect(path) as database:
        database.execute(
            "UPDATE entrants SET label = '</script><img src=x>' , card = '# <img src=x>' || char(10,10) || '<img>'"
        )
        database.execute("UPDATE places SET trace = '<img src=x>', name = '</script><img src=x>'")
    database.close()
    with Store(str(path), read_only=True) as store:
        made = Site(store)
        for page in made.paths():
            text = made.render(page)
            assert text is not None
            if not page.startswith("assets/"):
                inside = text.partition("</style>")[2] or text
                assert "<img" not in inside.replace("\\u003c", "&lt;") or page.startswith("data/"), page


def test_a_policy_has_its_curve(browser: Browser, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "policy.db"
    path.write_bytes(small.read_bytes())
    curve = of_progress([{"decisions": 10 * k, "reward_mean": 0.1 * k, "elapsed_s": 1.0} for k in range(500)])
    with sqlite3.connect(path) as database:
        database.execute("UPDATE entrants SET kind = 'policy'")
        database.execute("UPDATE entrants SET curve = ? WHERE id = 1", [json.dumps(curve)])
        database.execute("UPDATE entrants SET curve = ? WHERE id = 2", [json.dumps({"decisions": ["<img>"]})])
    database.close()
    with Store(str(path), read_only=True) as store:
        for page in (made := Site(store)).paths():
            (tmp_path / page).parent.mkdir(exist_ok=True)
            (tmp_path / page).write_text(str(made.render(page)))
    browser.open(tmp_path / "entrant" / "1.html")
    drawn = "document.querySelectorAll('#training .main-svg').length"
    assert browser.evaluate(drawn) > 0 and "CPU per decision" in browser.evaluate("document.body.innerText")
    for other in (2, 3):
        browser.open(tmp_path / "entrant" / f"{other}.html")
        assert browser.evaluate(drawn) == 0
        assert "holds no learning curve" in browser.evaluate("document.querySelector('#training').innerText")


def test_the_server_only_reads(small: Path) -> None:
    with make_server(str(small), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}/"
        before = small.read_bytes()
        for path in ("", "index.html", "data/cells.js", "entrant/1.html", "assets/page.css", "data/place-1.js"):
            with urllib.request.urlopen(base + path) as answer:
                assert answer.status == 200 and answer.read()
                assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        for path in ("absent", "../results.db", "%2e%2e/results.db", "entrant/999.html", "data/place-x.js"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(base + path)
            assert refused.value.code == 404
        for method in ("POST", "PUT", "DELETE"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(base, data=b"x", method=method))
            assert refused.value.code == 501
        server.shutdown()
        assert small.read_bytes() == before


COMPARED = {"throughput_mbps", "goodput_mbps", "queueing_delay_mean_ms", "queueing_delay_p95_ms", "loss_share"}
"""Stored figures that a page computes again at least."""


def test_a_cell_runs_again_in_the_page(browser: Browser, site: Path, small: Path, tmp_path: Path) -> None:
    need_simulator()
    cells = [(place, entrant) for place in (1, 5) for entrant in (1, 2)]
    for place, entrant in cells:
        browser.call("Page.navigate", url="about:blank")
        browser.call("Page.navigate", url=f"{(site / 'cell.html').as_uri()}#{place}-{entrant}")
        pressed = press(browser)
        compared = {name for name, verdicts in pressed.figures.items() if verdicts != [""]}
        assert compared >= COMPARED and {pressed.figures[name][0] for name in compared} == {"same"}, pressed
    assert f"made by ccarena {__version__}" in browser.evaluate("document.querySelector('.run-note').textContent")
    assert inaccessible(browser) == [] and browser.messages == []
    # One stored figure is another one than the run's.
    path, changed = tmp_path / "changed.db", tmp_path / "changed"
    path.write_bytes(small.read_bytes())
    with sqlite3.connect(path) as database:
        database.execute("UPDATE runs SET goodput_mbps = goodput_mbps * 1.001 WHERE place = 1 AND entrant = 1")
    database.close()
    assert cli.main(["leaderboard", "page", str(changed), "--store", str(path)]) == 0
    browser.call("Page.navigate", url=f"{(changed / 'cell.html').as_uri()}#1-1")
    pressed = press(browser)
    assert pressed.figures["goodput_mbps"] == ["other"] and pressed.figures["throughput_mbps"] == ["same"]


def test_the_server_lets_a_page_run_a_cell(browser: Browser, small: Path) -> None:
    need_simulator()
    with make_server(str(small), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.messages.clear()
        browser.call("Page.navigate", url=f"http://127.0.0.1:{server.server_address[1]}/cell.html#1-1")
        assert press(browser).figures["throughput_mbps"] == ["same"]
        assert browser.messages == []
        server.shutdown()


def test_the_scenario_of_a_page_is_the_run(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store(str(small), read_only=True) as store:
        found, refused = Repeats(store, "sim").at(store.places()[0])
        rows = {entrant["id"]: entrant for entrant in store.entrants()}
    assert {rows[number]["label"] for number in found} == {"cubic", "copa", "reno"}
    assert {rows[number]["label"] for number in refused} == {"best fixed window", "one RTT late"}
    assert "computed from the capacity" in next(iter(refused.values()))
    for again in (run for runs in found.values() for run in runs):
        flow = perform(again.scenario, "sim").measured().flows[0]
        for name in COMPARED:
            assert again.stored["flow0"][name] == pytest.approx(value(flow, name), rel=1e-8), name


def test_runs_of_another_link_or_entrant_are_not_offered(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(small.read_bytes())
    with sqlite3.connect(path) as database:
        database.execute("UPDATE places SET trace_digest = 'absent', trace = 'absent' WHERE id = 1")
        database.execute("UPDATE places SET delay_ms = delay_ms + 1 WHERE id = 2")
        database.execute("UPDATE entrants SET digest = 'other' WHERE label = 'cubic'")
    database.close()
    with Store(str(path), read_only=True) as store:
        places = store.places()
        repeats = Repeats(store, "sim")
        whys = [set(repeats.at(place)[1].values()) for place in places[:3]]
        assert repeats.at(places[0])[0] == repeats.at(places[1])[0] == {}
    assert whys[0] == {"the trace absent was not on the machine that made this page"}
    assert "the link of this version of ccarena is not the one of the run" in whys[1]
    assert "it was not on the machine that made this page, or not as it was in the run" in whys[2]


def test_pages_without_the_simulator_say_so_once(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runnable, "simulator", dict)
    with Store(str(small), read_only=True) as store:
        made = Site(store)
        text = made.render("cell.html")
        assert text is not None and text.count("`make web`") + text.count("<code>make web</code>") == 1
        assert "assets/play/cell.js" not in made.paths() and "play/cell.js" not in text


def test_policies_and_scenarios_that_are_given_run_again(tmp_path: Path) -> None:
    path, file = tmp_path / "own.db", tmp_path / "shared.yaml"
    file.write_text(
        "duration_s: 1\nlinks: [{service: {type: constant, rate_mbps: 24}, router: true}]\n"
        "flows: [{name: entrant, scheme: reno}, {scheme: cubic}]\n"
    )
    run_board(Board(traces=(), schemes=("cubic",), policies=("acct",), scenarios=(str(file),), seeds=1), str(path))
    with Store(str(path), read_only=True) as store:
        (place,) = store.places()
        found, refused = Repeats(store, "sim").at(place)
        assert not found and set(refused.values()) == {
            "the scenario's file (`--scenario`) was not on the machine that made this page"
        }
        repeats = Repeats(store, "sim", ["acct"], [str(file)])
        found, refused = repeats.at(place)
        assert not refused and len(repeats.files) == 1
        for (again,) in found.values():
            assert "score" not in again.stored["entrant"], "a scenario's score is of a part of the link"
            assert set(again.files) <= set(repeats.files)
        made = Site(store, "", ["acct"], [str(file)])
        scripts = [path for path in made.paths() if path.startswith("data/file-")]
        assert len(scripts) == 1 and "ccarenaFiles" in str(made.render(scripts[0]))
        assert made.render("data/file-0123456789abcdef.js") is None
