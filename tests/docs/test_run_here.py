"""Scenarios in the documentation's site, which its readers run in the page."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from ccarena.core.reader import parse_yaml
from ccarena.pages.browser import Browser, find_browser

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"
sys.path[:0] = [str(SITE), str(ROOT / "tests" / "pages")]

PAGE = """# A page

```yaml
duration_s: 1
links: [{service: {type: constant, rate_mbps: 12}, delay_ms: 10}]
flows: [{scheme: cubic, name: "</div><img src=x>"}]
```

```yaml
learned: 1
```
"""


def test_every_scenario_of_the_pages_has_a_button() -> None:
    pytest.importorskip("sphinx", reason="NO SPHINX: the site was not looked at (make site)")
    from run_here import repeat_in

    with_button = 0
    for page in (ROOT / "docs").glob("*.md"):
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            document = parse_yaml(block, page.name)
            whole = isinstance(document, dict) and {"links", "flows"} <= document.keys()
            # No page of the site carries a recording, nor what another program runs.
            if whole and not re.search(r"\bfile: |@|foreign|controller|kernel:|\.yaml", block):
                assert repeat_in(block) is not None, (page.name, block)
                with_button += 1
            elif not whole:
                assert repeat_in(block) is None, (page.name, block)
    assert with_button >= 8


def test_a_page_of_the_site_runs_its_scenario(tmp_path: Path) -> None:
    pytest.importorskip("furo", reason="NO SPHINX: the site was not looked at (make site)")
    from pressed import need_simulator, press
    from run_here import write_scripts
    from sphinx.cmd.build import build_main

    need_simulator()
    if find_browser() is None:
        pytest.skip("NO BROWSER: the site was not looked at (apt-get install chromium)")
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    (source / "index.md").write_text(PAGE, "utf-8")
    shutil.copy(SITE / "conf.py", source)
    write_scripts(source / "static")
    assert build_main(["-b", "html", "-W", "-q", str(source), str(out)]) == 0
    assert (out / "index.html").read_text("utf-8").count("data-ccarena-scenario") == 1
    with Browser() as browser:
        browser.call("Page.navigate", url=(out / "index.html").as_uri())
        pressed = press(browser)
        assert "Digest" in pressed.status and pressed.figures.keys() >= {"goodput_mbps", "rtt_mean_ms"}
        assert browser.evaluate("document.querySelectorAll('img').length") == 0 and browser.messages == []
