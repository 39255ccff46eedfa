"""The leaderboard's pages, from files and from the server, as a browser shows them."""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.eval.leaderboard.serve import make_server
from ccarena.eval.leaderboard.site import Site
from ccarena.eval.leaderboard.store import Store
from ccarena.pages.browser import Browser, find_browser
from ccarena.policies.curve import of_progress

sys.path.insert(0, str(Path(__file__).parents[2] / "pages"))

from looked_at import faults, inaccessible

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
    ranks = browser.evaluate(ROWS % "#ranks")
    assert {row[0] for row in ranks} >= {"cubic", "copa", "reno", "one RTT late", "best fixed window"}
    scores = [float(row[2]) for row in ranks]
    assert scores == sorted(scores, reverse=True)
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


def test_names_are_text(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "named.db"
    path.write_bytes(small.read_bytes())
    import sqlite3

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
    import sqlite3

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
