"""Rewrites the generated parts of the documentation (`make docs`)."""

from __future__ import annotations

from pathlib import Path

from docs.generate import attack, configuration, environments, figures, league, learned, schemes, stacks, suites, traces

PAGES = {
    "attack": attack,
    "configuration": configuration,
    "entrant-files": stacks,
    "environment": environments,
    "figures": figures,
    "learned": learned,
    "results": league,
    "schemes": schemes,
    "suites": suites,
    "traces": traces,
}
"""Each page's generator: `GENERATED` is the mark after which `markdown()` follows."""

if __name__ == "__main__":
    for name, generator in PAGES.items():
        page = Path("docs", f"{name}.md")
        written = page.read_text("utf-8").partition(generator.GENERATED)[0]
        if generator is attack:
            written = attack.filled(written)
        page.write_text(written + generator.markdown(), "utf-8")
