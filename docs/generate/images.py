"""The plot in docs/python.md: `python -m docs.generate.images`, after a change to plots for papers."""

from __future__ import annotations

import ccarena

if __name__ == "__main__":
    scenario = {
        "duration_s": 5,
        "links": [{"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10, "loss": 0.001}],
        "flows": [{"scheme": "${scheme}"}],
    }
    results = ccarena.run(scenario, sweep={"scheme": ["cubic", "bbr", "copa", "vegas"]}, seeds=5)
    results.plot("scatter", "docs/images/scatter.png")
