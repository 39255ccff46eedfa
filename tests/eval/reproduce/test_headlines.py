"""Headline claims of the papers: every one names claims of suites, and its row says what they came to."""

from __future__ import annotations

from typing import Any

import pytest

from ccarena.errors import ConfigError
from ccarena.eval.reproduce import headlines, papers, suite
from ccarena.eval.reproduce.headlines import Headline


def test_every_paper_of_others_has_headlines_of_claims_that_suites_have() -> None:
    found = headlines.headlines()
    own = {paper for paper, about in papers.about().items() if about.get("own")}
    assert set(found) == {paper for paper in papers.about() if paper not in own} | {"dctcp"}
    assert all(6 <= len(found[paper]) <= 11 for paper in ("acct", "hercules", "hyvar", "wcc"))
    for paper, entries in found.items():
        assert {name.partition("/")[0] for entry in entries for name in entry.claims} == {paper}


def test_a_whole_text_is_no_beginning_of_another() -> None:
    (one,) = {entry.says: entry for entry in headlines.headlines()["acct"] if "Vegas" in entry.says}.values()
    (text,) = one.claims["acct/friendliness"]
    texts = headlines._texts("acct/friendliness", "sim", text)
    assert texts == tuple(f"ACCT's share of the link beside {rival}" for rival in ("vegas", "illinois", "cubic"))


def test_a_row_says_what_was_measured_and_how_many_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Headline(
        says="A",
        paper="5 s",
        claims={"hercules/arrival": ["Two that"], "hercules/loss": ["The same"]},
        here=["time", "ratio"],
        why="B",
    )
    monkeypatch.setattr(headlines, "headlines", lambda: {"hercules": [entry]})
    loss = [claim.text for claim in suite.load("hercules/loss").claims if claim.model.claim.startswith("The same")]

    def row(arrival: dict[str, Any], of_loss: list[dict[str, Any]]) -> str:
        text = next(c.text for c in suite.load("hercules/arrival").claims if c.text.startswith("Two that"))
        digests = [
            {"suite": "hercules/arrival", "claims": [{"claim": text, "measured": "2.00 [1, 3] s", **arrival}]},
            {
                "suite": "hercules/loss",
                "claims": [{"claim": t, "measured": "1.66", **one} for t, one in zip(loss, of_loss, strict=False)],
            },
        ]
        return headlines.table("hercules", digests)[-1]

    held = {"state": "holds", "values": [[1.5]]}
    assert row({"state": "differs", "values": [[2.0]]}, [held]) == (
        "| A | 5 s | time: 2 s; ratio: 1.5 | **1 of 2 hold** |  |  | B |"
    )
    many = [{**held, "values": [[float(n)]]} for n in (3, 1, 2, 9)]
    cubic = {"discriminates": False}
    both = row({**held, **cubic, "more": True}, [{**one, **cubic} for one in many])
    assert both == "| A | 5 s | time: 1.5 s; ratio: 3; 1; 2; 9 | **holds, with CUBIC too, and more** |  |  | B |"
    assert "ratio: 1, 3; 2 |" in row(held, [{**held, "values": [[1.0, 3.0]]}, {**held, "values": [[2.0]]}])
    spread = row(held, [{**held, "values": [[float(n), n + 0.5, n]]} for n in (3, 1, 2)])
    assert "ratio: 1 to 3.5 (3 claims) |" in spread, "`;` would show as many claims as hold or do not"
    never = row({"state": "does not hold", "values": [[None]], "measured": "never s"}, [])
    assert never == "| A | 5 s | time: never | **does not hold** |  |  | B |"


def test_a_headline_of_a_claim_that_no_suite_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    headlines.headlines.cache_clear()
    wrong = {"wcc": [{"says": "a", "paper": "b", "claims": {"wcc/ack": ["NewRenno"]}, "here": ["d"], "why": "c"}]}
    monkeypatch.setattr(headlines, "parse_yaml", lambda *_: wrong)
    with pytest.raises(ConfigError, match=r"headlines.yaml: wcc: wcc/ack has no claim 'NewRenno'"):
        headlines.headlines()
    wrong["wcc"][0]["here"] = []
    with pytest.raises(ConfigError, match="'a': expected one entry of `here` for each claim"):
        headlines.headlines()
    wrong["wcc"][0]["becaus"] = "d"
    with pytest.raises(ConfigError, match="becaus"):
        headlines.headlines()
    headlines.headlines.cache_clear()
