"""Outside generators: each line is answered, and whatever a generator or its programs do is a stated result."""

from __future__ import annotations

import base64
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: generators not tested (run make)")

import ccarena
from ccarena.cli import main
from ccarena.errors import ConfigError
from ccarena.searches.generator import program_of
from tests.controllers.made import CREATE, compiled, needs, source

LINK = "24mbps,40ms,4bdp"
SMALL: dict[str, Any] = {
    "links": [LINK],
    "test_links": ["23mbps,40ms,4bdp", "25mbps,40ms,4bdp"],
    "test_seeds": 1,
    "duration_s": 2.0,
    "rungs": 1,
    "limit_s": 0.5,
    "memory_mb": 300.0,
    "silence_s": 20.0,
}
CLASS = """
import ccarena

class Mine(ccarena.Controller):
    def on_ack(self, ack):
        BODY
"""
BODIES = {
    "good": "self.window = 80",
    "loops": "exec('while True: pass')",
    "deaf": "max(__import__('itertools').repeat(0))",
    "eats": "self.kept = bytearray(10**9)",
    "raises": "self.window = 1 / 0",
    "silent": "self.window = float('nan')",
}


def run(tmp_path: Path, script: str, template: str = "fixed", **changes: Any) -> ccarena.Found:
    file = tmp_path / "generator.py"
    file.write_text(textwrap.dedent(script))
    return ccarena.search(
        template, generator=f"{sys.executable} {file}", out=tmp_path / "out", **{**SMALL, "candidates": 20, **changes}
    )


def test_programs_that_loop_eat_memory_or_raise_cost_only_themselves(tmp_path: Path) -> None:
    programs = {name: CLASS.replace("BODY", body) for name, body in BODIES.items()}
    programs |= {
        "exits": f"import sys\nsys.exit(1)\n{CLASS}",
        "syntax": "class Mine:\n  def on_ack(self ack): pass\n",
        "empty": "x = 1\n",
        "import": "1 / 0\n",
    }
    programs["import"] += CLASS
    lines = [json.dumps({"id": name, "lang": "python", "program": text}) for name, text in programs.items()]
    lines += [json.dumps({"id": "scheme", "lang": "entrant", "program": "cubic"})]
    lines += [json.dumps({"id": "scheme again", "lang": "entrant", "program": "cubic"})]
    lines += [json.dumps({"id": "unknown", "lang": "entrant", "program": "cubci"})]
    lines += [json.dumps({"id": "empty module", "lang": "wasm", "program": "AGFzbQEAAAA="})]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n")
    found = run(
        tmp_path,
        f"""
        import os, sys
        print(open({str(tmp_path / "lines")!r}).read())
        sys.stdout.flush()
        os.close(1)
        open({str(tmp_path / "read")!r}, "w").write(sys.stdin.read())
        """,
        workers=2,
    )
    by_name = {each["name"]: each for each in found.candidates}
    assert found.program.startswith("python program ") and by_name["good"]["score"] > by_name["scheme"]["score"]
    assert found.entrant.endswith("out/best.py:Mine") and found.generator == ""
    expected = {
        "loops": "it took more than 0.5 s of processor time",
        "deaf": "its process ended: it took more than 0.5 s or 300 MB",
        "eats": "it took more than 300 MB of memory",
        "raises": "line 6, in on_ack",
        "silent": "window = nan",
        "syntax": "no Python, line 2",
        "exits": "line 2: SystemExit",
        "empty": "no class; expected one with a method on_ack",
        "import": "line 1: ZeroDivisionError",
        "unknown": 'did you mean "cubic"?',
        "empty module": "exports no",
    }
    for name, message in expected.items():
        assert message in by_name[name]["error"] and by_name[name]["score"] is None, (name, by_name[name])
    first, *results = map(json.loads, (tmp_path / "read").read_text().splitlines())
    assert first["template"] == "fixed" and first["links"] == [LINK] and first["known"][0]["number"] == 0
    assert [each["id"] for each in results] == [json.loads(line)["id"] for line in lines], "one answer for each line"
    answers = {each["id"]: each for each in results}
    assert answers["good"]["links"][LINK] == answers["good"]["score"] and answers["raises"]["score"] is None
    assert answers["scheme"]["number"] == answers["scheme again"]["number"]


@needs("C")
def test_modules_are_judged_by_file_and_by_bytes(tmp_path: Path) -> None:
    wide = source(create=CREATE.replace("config->params[0]", "80"))
    kept = tmp_path / "kept.wasm"
    kept.write_bytes(compiled(source()))
    lines = [
        {"id": "file", "lang": "wasm", "program": str(kept)},
        {"id": "bytes", "lang": "wasm", "program": base64.b64encode(compiled(wide)).decode()},
        {"id": "traps", "lang": "wasm", "program": base64.b64encode(compiled(source("__builtin_trap();"))).decode()},
    ]
    found = run(tmp_path, "\n".join(f"print({json.dumps(line)!r})" for line in lines))
    by_name = {each["name"]: each for each in found.candidates}
    assert by_name["bytes"]["score"] > by_name["file"]["score"] and "cc_on_ack" in by_name["traps"]["error"]
    assert Path(found.entrant) == tmp_path / "out" / "best.wasm"
    assert Path(found.entrant).read_bytes() == compiled(wide)


def test_a_generator_may_wait_for_each_result(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
        import json, sys
        json.loads(input())
        low, high = 10, 300
        for step in range(6):  # a search of its own: the slope at the middle
            middle = (low + high) // 2
            scores = []
            for window in (middle, middle + 3):
                print(json.dumps({"lang": "entrant", "program": f"fixed@window={window}"}), flush=True)
                scores.append(json.loads(input())["score"])
            low, high = (middle, high) if scores[1] > scores[0] else (low, middle)
        """,
        population=1,
    )
    assert 60 < float(found.entrant.partition("=")[2]) < 100


def test_a_search_that_goes_on_tells_what_is_known(tmp_path: Path) -> None:
    script = """
import json, sys
known = json.loads(input())["known"]
for number in range(len(known), 4):
    print(json.dumps({"id": str(number), "lang": "entrant", "program": f"fixed@window={10 * number}"}))
print("", flush=True)
"""
    first = run(tmp_path, script + "sys.exit(7)\n")
    assert len(first.candidates) == 4 and "the generator ended with code 7" in first.generator
    again = run(tmp_path, script, resume=True)
    assert again.candidates == first.candidates and again.generator == ""


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import sys; sys.exit('no more ideas')", "the generator ended with code 1: no more ideas"),
        ("import os; os.kill(os.getpid(), 9)", "the generator was killed by signal 9"),
        ("", "the generator ended without a candidate"),
        ("import time; time.sleep(60)", "the generator printed nothing for 0.5 s, and was ended"),
        (
            "while True: print('not a program')",
            "20 lines in a row were no candidates, at last 'not a program': no JSON",
        ),
        ("while True: print('x' * 100000, end='')", "20 lines in a row were no candidates"),
        ("while True: print('[1]')", "expected an object, such as"),
    ],
)
def test_a_generator_that_gives_nothing_is_a_result(script: str, says: str, tmp_path: Path) -> None:
    silence_s = 0.5 if "sleep" in script else 20.0
    found = run(tmp_path, f"input()\n{script}", silence_s=silence_s)
    assert says in found.generator and found.verdict.state == "nothing found" and found.entrant == "fixed"
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["generator"] == found.generator


def test_the_generator_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "search.md").read_text("utf-8")
    _, _, rest = page.partition("```py\n# generator.py\n")
    found = run(tmp_path, rest.partition("```")[0])
    assert len(found.candidates) == 10
    assert {each["name"] for each in found.candidates[1:]} >= {"w60"} and found.generator == ""
    assert "w60 " in (tmp_path / "out" / "generator.log").read_text()


def test_one_that_repeats_itself_ends_the_search(tmp_path: Path) -> None:
    line = json.dumps({"lang": "entrant", "program": "reno"})
    found = run(tmp_path, f"while True: print({line!r}, flush=True)", population=2)
    assert len(found.candidates) == 2 and "20 batches in a row had no new candidate" in found.generator


def test_the_command_line_fails_without_a_candidate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"search cubic --link {LINK} --test-link 23mbps --rungs 1 --candidates 3 --generator false --out".split()
    assert main([*words, str(tmp_path / "out")]) == 1
    assert "the generator ended with code 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"program": "x", "langg": "python"}, 'unknown key "langg"; did you mean "lang"?'),
        ({"program": "x", "lang": "perl"}, 'lang = perl|lang = "perl": expected entrant, rule, python, wasm'),
        ({"id": "a"}, "program: expected its text"),
        ({"program": "x", "params": {"a": "b"}}, "params: expected numbers by name"),
        ({"program": "x" * 3_000_000}, "3,000,000 characters; expected at most"),
        ({"program": "absent.wasm", "lang": "wasm"}, "absent.wasm: No such file"),
    ],
)
def test_a_line_that_is_no_program_is_refused(line: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        program_of(line)
    assert any(part in str(error.value) for part in message.split("|"))
