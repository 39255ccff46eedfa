"""The scenarios whose results are locked: every scheme, queue discipline, service, application and receiver once."""

from __future__ import annotations

from typing import Any

CUBIC = {"scheme": "cubic"}
QUEUES: dict[str, dict[str, Any]] = {
    "droptail": {"type": "droptail", "bdp": 1.5},
    "bytes": {"type": "droptail", "bytes": 90_000},
    "drophead": {"type": "drophead", "packets": 60},
    "infinite": {"type": "infinite"},
    "codel": {"type": "codel"},
    "codel-mahimahi": {"type": "codel", "packets": 200, "compat": "mahimahi"},
    "fq_codel": {"type": "fq_codel", "ecn": True},
    "pie": {"type": "pie", "ecn": True},
    "pie-mahimahi": {"type": "pie", "packets": 200, "compat": "mahimahi"},
    "red": {"type": "red", "ecn": True},
    "dualpi2": {"type": "dualpi2"},
    "step": {"type": "step", "mark_packets": 10, "packets": 200},
}
STEPS = {
    "type": "steps",
    "steps": [{"at_s": 0, "rate_mbps": 20}, {"at_s": 3, "rate_mbps": 5}, {"at_s": 6, "rate_mbps": 12}],
}
RANDOM = {"type": "random_steps", "min_mbps": 4, "max_mbps": 20, "period_s": 1}
CELLULAR = {"type": "cellular", "preset": "lte-driving"}
QUIC = {"ack_policy": {"type": "quic"}}
SHORT = {"app": {"type": "transfers", "sizes_bytes": [20_000, 200_000, 3_000], "gap_s": 0.2}}


def on(queue: str, *flows: dict[str, Any], **link: Any) -> dict[str, Any]:
    """Returns a run of ten seconds over one link with this queue: 12 Mbit/s and 15 ms, unless `link` says otherwise."""
    service = {"type": "constant", "rate_mbps": 12}
    links = [{"service": service, "delay_ms": 15, "queue": QUEUES[queue], **link}]
    record = {"packets": True, "series": True, "reports": True, "bin_ms": 100}
    return {"duration_s": 10, "seed": 7, "links": links, "flows": list(flows), "record": record}


def of(scheme: str, **fields: Any) -> dict[str, Any]:
    """Returns a flow."""
    return {"scheme": scheme, **fields}


SCENARIOS: dict[str, dict[str, Any]] = {
    # Heuristics beside CUBIC.
    "bbr": on("droptail", of("bbr"), CUBIC),
    "bbr on a cellular link": on("drophead", of("bbr"), CUBIC, service=CELLULAR),
    "bbr3": on("bytes", of("bbr3"), CUBIC, loss=0.001),
    "copa": on("droptail", of("copa"), CUBIC, service=RANDOM),
    "cubic": on("fq_codel", of("cubic", ecn=True), CUBIC),
    "cubic without hystart": on("codel", of("cubic", params={"hystart": 0}), CUBIC),
    "ewtcp": on("drophead", of("ewtcp", weight=2), CUBIC),
    "fixed": on("infinite", of("fixed", params={"window": 40}), CUBIC),
    "gcc": on("droptail", of("gcc"), of("gcc"), service=STEPS),
    "hercules": on("droptail", of("hercules", requirement={"min_mbps": 4, "max_mbps": 8}), CUBIC),
    "illinois": on("red", of("illinois", ecn=True), CUBIC, loss=0.0005),
    "dctcp": on("step", of("dctcp"), of("dctcp")),
    "ledbat": on("infinite", of("ledbat"), CUBIC, service=STEPS),
    "multcp": on("droptail", of("multcp", weight=3), CUBIC, jitter_ms=1),
    "prague": on("dualpi2", of("prague"), of("cubic", ecn=True)),
    "reno": on("codel-mahimahi", of("reno"), CUBIC, wakes_ms=1),
    "vegas": on("pie", of("vegas", ecn=True), CUBIC),
    "vivace": on("droptail", of("vivace"), CUBIC, loss=0.01),
    "vivace-hercules": on("pie-mahimahi", of("vivace-hercules"), CUBIC),
    "wcc-ai": on("droptail", of("wcc-ai", weight=2, changes=[{"at_s": 5, "weight": 0.5}]), CUBIC),
    "wcc-md": on("bytes", of("wcc-md", weight=2), CUBIC, service=STEPS),
    # With their routers.
    "abc": on("infinite", of("abc"), of("abc", start_s=2), router="abc", service=CELLULAR),
    "abc beside cubic": on("fq_codel", of("abc"), CUBIC, router="abc"),
    "acct": on("droptail", of("acct", policy="acct"), CUBIC, router=True),
    "acct over steps": on(
        "droptail", of("acct", policy="acct"), router={"type": "acct", "every_ms": 50}, service=STEPS
    ),
    "acct in integers": on("codel", of("acct", policy={"integer": "acct"}), CUBIC, router="acct"),
    "acct-signals": on("droptail", of("acct", policy="acct-signals"), CUBIC, router={"type": "acct", "noise": 0.1}),
    "acct-table": on("drophead", of("acct", policy="acct-table", **SHORT), CUBIC, router="acct"),
    "acct without a policy": on("droptail", of("acct", policy="none"), CUBIC, router="acct"),
    "xcp": on("droptail", of("xcp"), of("xcp", start_s=3), router="xcp"),
    # Learned.
    "aurora": on("droptail", of("aurora", policy={"constant": 0.3}), CUBIC),
    "hyvar": on("droptail", of("hyvar", policy="hyvar"), CUBIC),
    "hyvar over random steps": on("pie", of("hyvar", policy="hyvar"), service=RANDOM),
    "hyvar-packets": on("bytes", of("hyvar", policy="hyvar-packets"), CUBIC, loss=0.001),
    "orca": on("droptail", of("orca", policy={"constant": 0.1}), CUBIC),
    "l4s": on("dualpi2", of("l4s", policy={"constant": 0.01}), of("cubic", ecn=True)),
    "pilot": on("droptail", of("pilot"), CUBIC),
    "pilot on a cellular link": on("infinite", of("pilot"), service=CELLULAR),
    # Transport, applications and topology.
    "media and video": on(
        "droptail",
        of("cubic", app={"type": "media", "key_every_s": 1}),
        of("bbr", app={"type": "video", "chunk_s": 1, "buffer_s": 5}),
    ),
    "short transfers": on("droptail", of("reno", **SHORT), of("bbr", app={"type": "cbr", "rate_mbps": 2})),
    "on and off": on(
        "fq_codel",
        of("cubic", app={"type": "onoff", "rate_mbps": 6, "on_s": 1, "off_s": 0.5}),
        of("copa", app={"type": "capped", "rate_mbps": 3}),
        outages={"on_s": 4, "off_s": 0.3},
    ),
    "acknowledgements of quic": on("droptail", of("bbr3", **QUIC), of("cubic", **QUIC), loss=0.002),
    "bursts": on("droptail", of("cubic", burst_bytes=65536), CUBIC, service={"type": "constant", "rate_mbps": 100}),
    "bare transport": on("droptail", of("reno", sack=False, delayed_ack=False, slow_start=False), CUBIC, loss=0.02),
    "eight flows": on("red", of("vegas", count=4, receive_window_packets=30), of("cubic", count=4, initial_window=3)),
    "two links": {
        "duration_s": 10,
        "links": [
            {"name": "down", "service": {"type": "constant", "rate_mbps": 10}, "queue": QUEUES["codel"], "delay_ms": 5},
            {"name": "up", "service": RANDOM, "queue": QUEUES["droptail"], "delay_ms": 12},
        ],
        "flows": [
            of("cubic", path=["down"], return_path=["up"]),
            of("bbr", path=["up"], base_rtt_ms=60),
            of("copa", stop_s=8),
        ],
        "record": {"packets": True, "series": True, "bin_ms": 100},
    },
}  # fmt: skip
