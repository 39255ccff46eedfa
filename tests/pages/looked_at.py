"""What is wrong with a page as a browser shows it: `faults`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ccarena.pages.browser import Browser

LOOK = Path(__file__).with_name("look.js").read_text("utf-8")
CHECK = """axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(each =>
  `accessibility: ${each.help}: ${each.nodes.map(node => node.html.slice(0, 100)).join(' ')}`))"""


def inaccessible(browser: Browser) -> list[str]:
    """What axe-core, the accessibility checker, has against the page as it is shown now (WCAG 2.1 A, AA and more)."""
    browser.evaluate(resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8") + ";0")
    return list(browser.evaluate(CHECK))


def faults(browser: Browser, page: Path, charts: int) -> list[str]:
    """What is wrong with `page` at the widths of a desktop and of a phone, in both themes; `charts` are in sight."""
    out = []
    for width in (1400, 420):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.call("Emulation.setDeviceMetricsOverride", **size)
        for theme in ("light", "dark"):
            scheme = {"name": "prefers-color-scheme", "value": theme}
            browser.call("Emulation.setEmulatedMedia", features=[scheme])
            browser.messages.clear()
            if theme == "light":
                browser.open(page)
                browser.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            else:  # the page follows the system
                browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seen = browser.evaluate(LOOK)
            found = [*seen["faults"], *(f"console: {message}" for message in browser.messages)]
            if seen["drawn"] != charts:
                found.append(f"{seen['drawn']} charts are drawn, expected {charts}")
            if seen["dark"] != (theme == "dark"):
                found.append("in the other theme's colours")
            out += [f"{width} px, {theme}: {fault}" for fault in found]
    return out
