"""Runs that a page's reader repeats: the exact scenario with its files, or the reason why not, by name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ccarena import _core
from ccarena.core.learned_schemes import shipped_policies
from ccarena.pages import Page, Section, render, runnable
from ccarena.pages.runnable import Runnable
from ccarena.scenarios import repeat
from ccarena.scenarios.one_run import checked
from ccarena.scenarios.repeat import Unrepeatable, repeat_of
from ccarena.traces.manifest import manifest

LINK = {"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10}


def scenario(service: dict[str, Any] | None = None, **flow: Any) -> dict[str, Any]:
    link = {**LINK, **({"service": service} if service else {})}
    return {"duration_s": 1, "links": [link], "flows": [{"scheme": "cubic", **flow}]}


def test_the_scenario_of_a_page_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = scenario(scheme="acct", policy=str(shipped_policies()["acct"]))
    document["links"][0]["router"] = True
    again = repeat_of(document, {"seed": "1"}, {"flow0": {"goodput_mbps": 1 / 3, "power": float("nan"), "score": None}})
    assert list(again.files) == [again.scenario["flows"][0]["policy"]] and "/" not in next(iter(again.files))
    assert again.stored == {"flow0": {"goodput_mbps": 0.333333333}} and not again.licences
    monkeypatch.chdir(tmp_path)
    for name, data in again.files.items():
        Path(name).write_bytes(data)
    here, there = (_core.simulate(json.dumps(each))["flows"][0] for each in (again.scenario, document))
    assert here["delivered_bytes"] == there["delivered_bytes"] > 0 and here["rtt_mean_ms"] == there["rtt_mean_ms"]


@pytest.mark.parametrize(
    ("flow", "why"),
    [
        ({"name": "theirs", "foreign": {"type": "kernel"}}, "theirs is a program of others"),
        ({"controller": {"type": "python", "class": "a.py:A"}}, "cubic is a Python class"),
        ({"controller": {"type": "wasm", "module": "a.wasm"}}, "cubic is a module of a user's"),
        ({"policy": "absent.safetensors"}, "absent.safetensors cannot be read: No such file or directory"),
    ],
)
def test_what_a_browser_does_not_have_is_named(flow: dict[str, Any], why: str) -> None:
    with pytest.raises(Unrepeatable, match=why):
        repeat_of(scenario(**flow), {})


def test_a_page_carries_a_trace_only_if_its_licence_lets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.down"
    file.write_text("1\n2\n3\n")
    document = scenario({"type": "trace", "file": str(file)})
    with pytest.raises(Unrepeatable, match=r"mine\.down is a recording whose licence ccarena does not know"):
        repeat_of(document, {})
    own = hashlib.sha256(file.read_bytes()).hexdigest()
    for licence, carried in (("GPL-3.0-or-later", True), ("none stated", False)):
        entries = (replace(manifest()[0], sha256=own, licence=licence),)
        monkeypatch.setattr(repeat, "manifest", lambda entries=entries: entries)
        repeat._licences.cache_clear()
        if carried:
            again = repeat_of(document, {})
            assert list(again.files.values()) == [b"1\n2\n3\n"] and licence in again.licences[0]
        else:
            with pytest.raises(Unrepeatable, match=r"may not pass on the trace .* \(licence: none stated;"):
                repeat_of(document, {})
    repeat._licences.cache_clear()
    monkeypatch.setattr(repeat, "MOST_BYTES", 5)
    with pytest.raises(Unrepeatable, match="has 6 bytes; a page carries files of at most 5"):
        repeat_of(document, {})


def test_a_page_of_one_file_holds_the_simulator_once(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Runnable([repeat_of(checked(scenario()), {"seed": "1"})], ["x: is a program of others."])
    page = Page("t", "k", "", sections=[Section("a", "", [block, block]), Section("b", "", [block])])
    built = {"play/cell.js": "'</script><!--'", "play/engine.js": "globalThis.ccarenaEngine=1"}
    monkeypatch.setattr(runnable, "simulator", lambda: built)
    text = render(page)
    assert text.count("ccarenaEngine=1") == 1 and text.count('class="runnable"') == 3
    assert "'<\\/script><\\!--'" in text and "x: is a program of others." in text
    assert '<script src="a/play/cell.js">' in render(replace(page, shared="a/"))
    monkeypatch.setattr(runnable, "simulator", dict)
    text = render(page)
    assert text.count("<code>make web</code>") == 1 and "ccarenaEngine" not in text and 'class="runnable"' not in text
