"""The plots in docs/python.md and docs/l4s.md: `python -m docs.generate.images`, after a change to plots for papers."""

from __future__ import annotations

import ccarena


def scatter() -> None:
    """Draws throughput against delay of four schemes."""
    scenario = {
        "duration_s": 5,
        "links": [{"service": {"type": "constant", "rate_mbps": 24}, "delay_ms": 10, "loss": 0.001}],
        "flows": [{"scheme": "${scheme}"}],
    }
    results = ccarena.run(scenario, sweep={"scheme": ["cubic", "bbr", "copa", "vegas"]}, seeds=5)
    results.plot("scatter", "docs/images/scatter.png")


def l4s() -> None:
    """Draws the queueing delays of CUBIC's and Prague's packets over DualPI2."""
    link = {"service": {"type": "constant", "rate_mbps": 40}, "delay_ms": 10, "queue": {"type": "dualpi2"}}
    flows = [{"scheme": "cubic", "ecn": True}, {"scheme": "prague"}]
    results = ccarena.run({"duration_s": 30, "links": [link], "flows": flows, "record": {"packets": True}})
    figure = results.plot("cdf")
    figure.axes[0].set_xlim(0.01, 50)
    figure.savefig("docs/images/l4s.png")


if __name__ == "__main__":
    scatter()
    l4s()
