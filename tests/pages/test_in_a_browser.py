"""The pages of all commands as a browser shows them: both themes, a desktop and a phone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ccarena import cli
from ccarena.pages.browser import Browser

sys.path.insert(0, str(Path(__file__).parent))

from looked_at import faults
from pressed import repeated

SCENARIO = """\
duration_s: 2
links: [{service: {type: constant, rate_mbps: 24}, delay_ms: 10}]
flows: [{name: <b>mine, scheme: reno}, {scheme: cubic}]
"""


def run(*words: str) -> None:
    assert cli.main(list(words)) == 0


def test_the_evaluation(browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "eval"
    run(
        "eval",
        "--link-sets",
        "slides",
        "steps",
        "--schemes",
        "cubic",
        "--seeds",
        "1",
        "--duration-s",
        "3",
        "--out",
        str(out),
    )
    assert faults(browser, out / "page.html", charts=2 + 2 + 2) == []
    page = browser.evaluate("document.body.innerText")
    assert "ccarena eval" in page and "CUBIC" in page
    assert repeated(browser) >= {"throughput_mbps", "goodput_mbps", "loss_share"}


def test_a_policy_without_recordings(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CCARENA_TRACE_DIR", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    run(
        "eval", "acct", "--link-sets", "slides", "cellular", "--seeds", "1", "--duration-s", "2", "--out", str(tmp_path)
    )
    assert faults(browser, tmp_path / "page.html", charts=1 + 3 + 2 + 3 + 3) == []
    answers = browser.evaluate("[...document.querySelectorAll('.callout h3')].map(h => h.parentElement.className)")
    assert answers == ["callout neutral", "callout partly"], "nothing was tested, and one seed does not decide"
    assert browser.evaluate("document.querySelectorAll('main > section')[0].id") == "findings"
    assert browser.evaluate("document.querySelectorAll('.callout.bad, td.bad').length") == 0


def test_a_competition(browser: Browser, tmp_path: Path) -> None:
    out = tmp_path / "compete"
    run("compete", "cubic", "reno", "vegas", "--link", "12mbps", "--duration-s", "3", "--seeds", "2", "--out", str(out))
    assert faults(browser, out / "compete.html", charts=3) == []
    assert "of the rate beside" in browser.evaluate("document.querySelector('#findings').innerText")
    (shares, _, _) = browser.evaluate(
        "[...document.querySelectorAll('.plot')].map(p => [...p.querySelectorAll('.bartext')].map(t => t.textContent))"
    )
    rows = browser.evaluate("[...document.querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
    of_cubic = next(row for row in rows if row[0] == "cubic + reno" and row[1] == "cubic")
    assert shares[0] == "50" and shares[1] == f"{float(of_cubic[5].split(' ')[0]):.0f}"


def test_a_reproduction(browser: Browser, tmp_path: Path) -> None:
    run("reproduce", "wcc/buffer", "--quick", "--out", str(tmp_path))
    assert faults(browser, tmp_path / "wcc" / "buffer" / "page.html", charts=3) == []
    repeated(browser)
    text = browser.evaluate("document.body.textContent")
    assert "not tested" in text and "ccarena reproduce wcc/buffer --quick" in text
    assert faults(browser, tmp_path / "index.html", charts=0) == []
    browser.open(tmp_path / browser.evaluate("document.querySelector('td a').getAttribute('href')"))
    assert browser.evaluate("document.title").startswith("wcc/buffer")


def test_a_scenario(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(SCENARIO)
    run("eval", "--scenario", str(tmp_path / "one.yaml"), "--seeds", "2", "--out", str(tmp_path))
    assert faults(browser, tmp_path / "page.html", charts=2) == []
    assert "<b>mine (reno) got " in browser.evaluate("document.querySelector('#findings').textContent")
    assert repeated(browser) >= {"throughput_mbps", "queueing_delay_p95_ms", "rtt_mean_ms"}


def test_traces_and_their_images(browser: Browser, tmp_path: Path) -> None:
    words = ("traces", "plot", "lte-walking", "lte-bus", "--duration-s", "30", "--out")
    run(*words, str(tmp_path / "t.html"))
    assert faults(browser, tmp_path / "t.html", charts=2) == []
    assert browser.evaluate("document.querySelectorAll('option').length") == 3
    for suffix, magic in ((".svg", b"<svg "), (".png", b"\x89PNG"), (".pdf", b"%PDF-")):
        path = tmp_path / f"t{suffix}"
        run(*words, str(path))
        assert path.read_bytes().startswith(magic)
    assert b">lte-bus</text>" in (tmp_path / "t.svg").read_bytes()


def test_fidelity(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "up").write_text("".join(f"{ms}\n" for ms in range(1, 1001)))
    result = {"first_data_ms": 20, "throughput_mbps": 11.9, "qdelay_ms": {"mean": 10.0, "p95": 20}}
    case = {"up": "up", "down": "up", "owd_ms": 10, "queue": "droptail", "queue_args": "packets=20", "seconds": 2}
    cases = [{**case, "cc": cc, "result": result} for cc in ("reno", "cubic", "bbr")]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    page = tmp_path / "f.html"
    run("fidelity", str(tmp_path / "cases.json"), "--offsets", "2", "--jobs", "1", "--plot", str(page))
    assert faults(browser, page, charts=1) == []
    assert "of 3 cases are within the bounds" in browser.evaluate("document.body.textContent")
