"""Any input of at most 1 MB is taken or refused within 10 s of one processor and 300 MB: every parser and command."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: costs of inputs not tested (run make)")

MB = 1_000_000
MOST_S, MOST_MB = 10.0, 300.0
Content = str | bytes | Callable[[Path], object]


class Case(NamedTuple):
    """An input, the command that reads it, and a part of what the command has to say."""

    name: str
    words: tuple[str, ...]
    content: Content
    says: str
    environment: dict[str, str] = {}  # noqa: RUF012  (never changed)

    @property
    def file(self) -> str:
        """The name that the words have for the input."""
        return next(Path(word).name for word in self.words if Path(word).name.startswith("given"))


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def scenario(**changes: Any) -> str:
    """A scenario as JSON: its link, its flow or itself changed."""
    link = {"service": {"type": "constant", "rate_mbps": 10}, **changes.pop("link", {})}
    flow = {"scheme": "cubic", **changes.pop("flow", {})}
    return json.dumps({"duration_s": 1, "links": [link], "flows": [flow], **changes})


def safetensors(header: dict[str, Any]) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4)


def tangled() -> str:
    """Rules in horizontal and vertical bars by turns: each of them crosses half of the others."""
    rule = {"window_increment": 1, "window_multiple": 1, "intersend_ms": 1}
    bars = []
    for i in range(7000):
        lower, upper = ([i * 2, 0], [i * 2 + 2, 20000]) if i % 2 else ([0, i * 2], [20000, i * 2 + 2])
        bars.append({"lower": lower, "upper": upper, "leaf": rule})
    tree = {"lower": [0, 0], "upper": [20000, 20000], "children": bars}
    return json.dumps({"axes": ["rtt_ratio", "rec_rec_ewma"], "tree": tree})


def alias_bomb() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    return "\n".join(lines)


READERS: dict[str, tuple[str, ...]] = {
    "scenario": ("eval", "--scenario", "given.yaml", "--out", "out"),
    "JSON scenario": ("eval", "--scenario", "given.json", "--out", "out"),
    "links of compete": ("compete", "cubic", "--scenario", "given.yaml", "--out", "out"),
    "configuration": ("train", "--config", "given.yaml", "--print-config"),
    "suite": ("reproduce", "./given.yaml", "--out", "out"),
    "search space": ("tune", "--space", "given.yaml", "--out", "out"),
    "attack's space": ("attack", "cubic", "--space", "given.yaml", "--out", "out"),
    "finds": ("attack", "cubic", "--replay", "given.yaml"),
    "spec": ("compete", "./given.yaml", "cubic", "--out", "out"),
    "recorded cases": ("fidelity", "given.json"),
}
DOCUMENTS: dict[str, tuple[Content, str]] = {
    "aliases that multiply": (alias_bomb(), ""),
    "an alias within itself": ("links: &l [*l]", ""),
    "nesting": ("[" * MB, ""),
    "many small mappings": ("[" + "{},\n" * (MB // 4) + "{}]", ""),
    "many keys": ("{" + ",".join(f'"a{i}": 1' for i in range(80_000)) + "}", ""),
    "a long text": ('{"a": "' + "x" * MB + '"}', ""),
    "a long key": ('{"' + "x" * MB + '": 1}', ""),
    "a long number": ('{"duration_s": ' + "9" * MB + "}", ""),
    "a device": (device, "it is a device"),
    "a sparse file": (sparse, "1,099,511,627,776 bytes"),
}
SCENARIO = READERS["JSON scenario"]
SUITE = """
title: t
paper: p
summary: s
conditions: [c]
seeds: {full: 100, quick: 1}
sweep:
  a: [1, 2, 3, 4, 5, 6, 7, 8, 9]
  b: [1, 2, 3, 4, 5, 6, 7, 8, 9]
  c: [1, 2, 3, 4, 5, 6, 7, 8, 9]
  d: [1, 2, 3, 4, 5]
scenario: {links: [], flows: []}
claims: [{claim: c, paper: 1, measured: {value: utilisation}, holds: {at_least: 0}}]
"""
LINK = {"service": {"type": "constant", "rate_mbps": 1}}
REPEATED = {"type": "transfers", "sizes_bytes": [1] * 5000}
LATE, AT_ONCE = "4294967295\n", "1\n" * (MB // 2)
SPREAD = "".join(f"{i * 4000}\n" for i in range(100_000))
IMPORT = ("policy", "import", "remy")
METADATA = {"ccarena_format": "2", "graph": "[" * (MB - 1000)}


def leb(number: int) -> bytes:
    """A number as WebAssembly writes it (LEB128)."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def wasm(*sections: tuple[int, int, bytes]) -> bytes:
    """A module of sections, each an identifier, a number of entries, and the entries."""
    out = b"\0asm\1\0\0\0"
    for identifier, count, entries in sections:
        body = leb(count) + entries
        out += bytes([identifier]) + leb(len(body)) + body
    return out


def functions(count: int, body: bytes) -> bytes:
    """A module of equal functions, which exports none."""
    code = leb(len(body) + 2) + b"\0" + body + b"\x0b"
    return wasm((1, 1, b"\x60\0\0"), (3, count, bytes(count)), (10, count, code * count))


REPORTED = "link,entrant,throughput_mbps,delay_ms,seed,source\n"
CASES = [
    *(
        Case(f"{reader}: {name}", words, content, says)
        for reader, words in READERS.items()
        for name, (content, says) in DOCUMENTS.items()
        # They share one reader: of what comes after it each has its own.
        if name in ("many keys", "a long text") or reader in ("JSON scenario", "configuration", "suite")
    ),
    # What few numbers ask for.
    Case("flows: copies", SCENARIO, scenario(flow={"count": 100_000}), "at most 500000 values"),
    Case("flows: listed", SCENARIO, scenario(flows=[{"scheme": "cubic"}] * 40_000), "at most 500000 values"),
    Case("flows: of policies", SCENARIO, scenario(flows=[{"scheme": "acct"}] * 40_000), "at most 500000 values"),
    Case("flows: different entrants", SCENARIO, scenario(flows=[{"scheme": f"acct@budget_ms=5.{i}"} for i in
         range(20_000)]), "more than 1,000 different entrants"),
    Case("flows: long lists", SCENARIO, scenario(flow={"count": 1000, "app": REPEATED}), "at most 500000 values"),
    Case("links: many, crossed by many", SCENARIO, scenario(links=[LINK] * 9000, flow={"count": 1000}),
         "at most 500000 values"),
    Case("steps", SCENARIO, scenario(link={"service": {"type": "steps",
         "steps": [{"at_s": i, "rate_mbps": 1} for i in range(30_000)]}}), ""),
    Case("random steps", SCENARIO, scenario(duration_s=1e6, record={"bin_ms": 1e6}, link={"service":
         {"type": "random_steps", "min_mbps": 0.001, "max_mbps": 0.002, "period_s": 0.001}}), "the limit is"),
    Case("outages", SCENARIO, scenario(duration_s=1e6, record={"bin_ms": 1e6}, link={"outages":
         {"on_s": 0.001, "off_s": 0.001}}), "the limit is"),
    Case("an application's rate", SCENARIO, scenario(duration_s=1e6, record={"bin_ms": 1e6}, link={"service":
         {"type": "constant", "rate_mbps": 0.001}}, flow={"app": {"type": "cbr", "rate_mbps": 1e6}}), "the limit is"),
    Case("transfer sizes", SCENARIO, scenario(flow={"app": {"type": "transfers", "sizes_bytes": [10**12] * 9}}), ""),
    Case("bins", SCENARIO, scenario(duration_s=1e6, record={"bin_ms": 0.1}), "the limit is"),
    Case("packets", SCENARIO, scenario(duration_s=1e6), "the limit is"),
    Case("a generated trace", SCENARIO, scenario(duration_s=1e6, link={"service":
         {"type": "cellular", "preset": "lte-driving"}}), "the limit is"),
    Case("a policy that is a device", SCENARIO, scenario(flow={"scheme": "acct", "policy": "/dev/zero"}),
         "no such policy"),
    Case("sweep", READERS["suite"], SUITE, "364,500 runs"),
    Case("search space: values", READERS["search space"], f"algorithm.gamma: {[i / 1e6 for i in range(90_000)]}",
         "90,000 values"),
    # Traces: of eleven bytes, all at once, and spread.
    *(
        Case(f"{words[0]} {words[1]}: {name}", (*words, *more), content, "")
        for name, content in (("a late opportunity", LATE), ("all at once", AT_ONCE), ("spread over days", SPREAD))
        for *words, more in (
            ("traces", "stats", ("given.trace",)),
            ("traces", "validate", ("given.trace",)),
            ("traces", "plot", ("given.trace", "--out", "out.html")),
            ("eval", "cubic", ("--traces", "given.trace", "--duration-s", "1", "--seeds", "1", "--out", "out")),
            ("compete", "cubic", ("--link", "given.trace", "--duration-s", "1", "--seeds", "1", "--out", "out")),
        )
    ),
    *(
        Case(f"reshaped: {name}", SCENARIO, scenario(link={"service":
             {"type": "trace", "file": "late.trace", "reshape": reshape}}), "the reshaped trace would have about")
        for name, reshape in (
            ("rate", {"mean_mbps": 1000}),
            ("length", {"length_s": 600, "mean_mbps": 300}),
            ("outages", {"outages": {"every_s": 0.001, "mean_s": 0.001, "rate_mbps": 1000}}),
        )
    ),
    Case("trace: sparse", ("traces", "stats", "given.trace"), sparse, "the byte 0x00"),
    Case("trace: one long line", ("traces", "stats", "given.trace"), "9" * MB, "the number has 1000000 digits"),
    Case("folder of traces: /", ("traces", "list", "given"), "", "", {"CCARENA_TRACE_DIR": "/proc"}),
    Case("table: rates", ("traces", "convert", "given.csv", "--out", "o"), "rate_mbps\n" + "9999\n" * 200_000,
         "opportunities"),
    Case("table: one cell", ("traces", "convert", "given.csv", "--out", "o"), "rate_mbps\n" + "1" * MB, "characters"),
    Case("table: a device", ("traces", "convert", "given.csv", "--out", "o"), device, "it is a device"),
    Case("rules: tangled", (*IMPORT, "given.json", "--out", "o.json"), tangled(), "tree: got"),
    Case("rules: a long message", (*IMPORT, "given.dna", "--out", "o.json"), b"\x12\x80\x80\x04" * (MB // 4), ""),
    Case("rules: many messages", (*IMPORT, "given.dna", "--out", "o.json"), b"\x12\x00" * (MB // 2), "a node with"),
    Case("checkpoint: a device", ("policy", "import", "orca", "given.index", "--out", "o"), device, ""),
    *(
        Case(f"reported: {name}", ("leaderboard", "import", "--reported", "given.csv", "--store", "o"), content, said)
        for name, content, said in (
            ("one cell", REPORTED + "1" * MB, "field larger than"),
            ("many columns", "a," * (MB // 2), 'unknown column "a"'),
            ("many rows", REPORTED + "".join(f"l,e,1,2,{n},s\n" for n in range(60_000)), ""),
            ("a device", device, "it is a device"),
        )
    ),
    *(
        Case(f"{words[0]}: {name}", words, content, said)
        for name, content, said in (
            ("a module of many types", wasm((1, 300_000, b"\x60\0\0" * 300_000)), ""),
            ("a module of many functions", functions(200_000, b""), ""),
            ("a module of one long function", functions(1, b"\x41\0\x1a" * 300_000), "exports no memory"),
            ("a module of deep blocks", functions(1, b"\x02\x40" * 300_000 + b"\x0b" * 300_000), ""),
            ("a module with a huge memory", wasm((5, 1, b"\0" + leb(65536))), ""),
            ("a module that is a device", device, ""),
            ("a module that is sparse", sparse, "expected at most"),
        )
        for words in (("check", "given.wasm"), ("schemes", "given.wasm"))
    ),
    # Artifacts.
    *(
        Case(f"{words[0]} {words[1]}: {name}", words, content, "")
        for name, content in (
            ("a long header", struct.pack("<Q", 1 << 60) + b"{}"),
            ("nested metadata", safetensors({"__metadata__": METADATA})),
            ("many entries", safetensors({"__metadata__": {f"k{i}": "" for i in range(60_000)}})),
            ("a large shape", safetensors({"a": {"dtype": "F32", "shape": [1 << 40, 9], "data_offsets": [0, 4]}})),
            ("sparse", sparse),
        )
        for words in (
            ("policy", "show", "given.safetensors"),
            ("export", "given.safetensors", "--to", "c", "--out", "out"),
            ("parity", "given.safetensors"),
            ("leaderboard", "verify", "given.safetensors"),
        )
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def zygote() -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    environment = {**os.environ, "CCARENA_TRACE_DIR": "", "CCARENA_LIMITS": "1"}
    command = [sys.executable, str(Path(__file__).with_name("zygote.py"))]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_inputs_cost_in_proportion(case: Case, zygote: subprocess.Popen[str], tmp_path: Path) -> None:
    cost, said = cost_of(case, zygote, tmp_path)
    assert cost["processor_s"] <= MOST_S, cost
    assert cost["memory_mb"] <= MOST_MB, cost
    assert cost["code"] in (0, 1, 2, 3), (cost, said)
    assert "internal error" not in said
    assert len(said) < 10_000, "an error shows a part of a long value"
    assert case.says in said


def test_many_flows_are_run_and_shown_in_proportion(zygote: subprocess.Popen[str], tmp_path: Path) -> None:
    link = {"service": {"type": "constant", "rate_mbps": 1000}}
    case = Case("5,000 flows", SCENARIO, scenario(link=link, flow={"count": 5000}), "")
    cost, said = cost_of(case, zygote, tmp_path)
    assert (cost["code"], said) == (0, "")
    assert cost["processor_s"] <= MOST_S, cost
    assert (tmp_path / "out" / "page.html").stat().st_size < 2 * MB


def cost_of(case: Case, zygote: subprocess.Popen[str], tmp_path: Path) -> tuple[dict[str, Any], str]:
    """Runs a case; returns its cost and its messages."""
    (tmp_path / "late.trace").write_text(LATE)
    if callable(case.content):
        case.content(tmp_path / case.file)
    else:
        data = case.content.encode() if isinstance(case.content, str) else case.content
        assert len(data) <= 2 * MB
        (tmp_path / case.file).write_bytes(data)
    request = {"words": case.words, "folder": str(tmp_path), "environment": case.environment}
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    print(json.dumps(request), file=zygote.stdin, flush=True)
    return json.loads(zygote.stdout.readline()), (tmp_path / "stderr").read_text("utf-8", "replace")
