"""The page of an evaluation."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

from ccarena.eval.heldout import expectations
from ccarena.eval.heldout.evaluation import Evaluation
from ccarena.eval.heldout.page import write_page


def test_the_page_is_one_file_without_network(evaluated: Evaluation, tmp_path: Path) -> None:
    progress = [
        {"decisions": 100 * k, "reward_mean": k, "entropy": 2.0, "zone_green": 0.5, "zone_yellow": 0.5}
        for k in range(20)
    ]
    verdict = expectations.judge(evaluated, progress)
    path = tmp_path / "page.html"
    evaluated = replace(evaluated, repeat=["ccarena eval 'a b'"])
    write_page(path, evaluated, verdict, name="a <b> & c", progress=progress, config="seed: 1")
    page = path.read_text("utf-8")
    assert "<title>a &lt;b&gt; &amp; c · ccarena</title>" in page
    assert page.count("<script") - page.count("</script>") == 0
    body = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert not re.search(r"""(src|href)=["']https?:""", body)
    assert body.count("<figure") == 5 + len(evaluated.series)
    assert all(html.escape(f"{one['group']}: {one['link']}") in body for one in evaluated.series)
    assert all(
        text in body for text in ("Expectations", "ccarena eval &#x27;a b&#x27;", "seed: 1", "one RTT late", "Sprout")
    )
