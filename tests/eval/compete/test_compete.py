"""Competition on one bottleneck: the grammar of entries and links, the runs, harm, and the command."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ccarena
from ccarena import __version__, cli
from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import ConfigError, ScenarioError
from ccarena.policies import artifact

_core = pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: `ccarena compete` not tested")
from ccarena.eval.compete import competition  # noqa: E402
from ccarena.eval.compete.bottlenecks import DEFAULT, from_scenario, parse_link  # noqa: E402
from ccarena.eval.compete.lineup import line_up, parse_group  # noqa: E402
from ccarena.eval.compete.matches import Plan, compete, matches_of  # noqa: E402
from ccarena.eval.compete.page import findings  # noqa: E402
from ccarena.eval.compete.tables import cells, left_out, matrices, summarise  # noqa: E402

GOLDEN = Path(__file__).parents[3] / "crates/ccarena-cc/tests/data/golden.safetensors"
LINK = parse_link("24mbps,20ms,1bdp")


def plan(*entries: str, groups: tuple[str, ...] = (), **changes: Any) -> Plan:
    entrants, paired, named = line_up(entries, groups, ExitStack())
    given: dict[str, Any] = {"duration_s": 8.0, "stagger_s": 1.0, "seeds": 1, **changes}
    return Plan(entrants, given.pop("links", [LINK]), paired, named, **given)


def test_a_line_up_names_each_once() -> None:
    entrants, paired, groups = line_up(["cubic", "reno"], ["cubic+bbr+bbr"], ExitStack())
    assert [entrant.label for entrant in entrants] == ["cubic", "reno", "bbr"]
    assert (paired, groups) == (["cubic", "reno"], [("cubic", "bbr", "bbr")])
    with pytest.raises(ConfigError, match=r'"reno" is given twice; every entrant also runs against itself'):
        line_up(["reno", "reno"], [], ExitStack())
    for wrong in ("cubic", "cubic+", "+"):
        with pytest.raises(ConfigError, match="two entrants or more"):
            parse_group(wrong)


@pytest.mark.parametrize(
    ("text", "rtt_ms", "link"),
    [
        (DEFAULT, 20, {"service": {"type": "constant", "rate_mbps": 48}, "queue": {"type": "droptail", "bdp": 1}}),
        ("1.5gbps,7.5ms", 7.5, {"service": {"type": "constant", "rate_mbps": 1500}}),
        ("500kbps,packets=9", 20, {"queue": {"type": "droptail", "packets": 9}}),
        ("9mbps,droptail:bytes=9000", 20, {"queue": {"type": "droptail", "bytes": 9000}}),
        ("9mbps,infinite,loss=0.01,router=0", 20, {"queue": {"type": "infinite"}, "loss": 0.01, "router": False}),
        ("lte-driving,40ms", 40, {"service": {"type": "cellular", "preset": "lte-driving"}}),
    ],
)
def test_a_link_is_its_parts(text: str, rtt_ms: float, link: dict[str, Any]) -> None:
    bottleneck = parse_link(text)
    assert (bottleneck.name, bottleneck.base_rtt_ms) == (text, rtt_ms)
    assert link.items() <= bottleneck.links[0].items()


def test_a_link_may_be_a_model() -> None:
    bottleneck = parse_link("starlink-driving,packets=300")
    (link,) = bottleneck.links_for([bottleneck.base_rtt_ms], 2, 2.0)
    assert link["conditions"] == {"model": "starlink-driving", "seed": 1, "offset_ms": "random"}
    assert link["delay_ms"] * 2 == bottleneck.base_rtt_ms and link["service"] == {"type": "conditions"}


def test_a_link_may_be_a_trace(tmp_path: Path) -> None:
    (tmp_path / "even.trace").write_text("".join(f"{ms}\n" for ms in range(1, 3000)))
    bottleneck = parse_link(f"{tmp_path / 'even.trace'},40ms,packets=50")
    first, second = (bottleneck.links_for([40.0], seed, 2.0)[0]["service"] for seed in (1, 2))
    assert first["offset_ms"] == 0 != second["offset_ms"] and first["file"] == second["file"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("48mbs", "is no rate .*the grammar"),
        ("20ms,1bdp", "no capacity"),
        ("48mbps,24mbps", '"24mbps" is a second capacity after "48mbps"'),
        ("48mbps,1bdp,packets=3", '"packets=3" is a second queue'),
        ("48mbps,droptial:packets=2", 'did you mean "droptail"'),
        ("48mbps,droptail:packet=2", r'queue\.packet: unknown field "packet"; did you mean "packets"'),
        ("48mbps,droptail:packets", "is no PARAMETER=VALUE of the queue droptail"),
        ("48mbps,packets=0", r"queue\.packets: got 0"),
        ("48mbps,0bdp", r"queue\.bdp: got 0"),
        ("48mbps,loss=2", "loss: got 2"),
        ("48mbps,los=0.1", 'unknown part "los=0.1"; did you mean "loss"'),
        ("lte-drivin", 'did you mean "lte-driving"'),
        ("starlnk", 'did you mean "starlink"'),
        ("wifi,20ms", 'the link model "wifi" has a base RTT of its own'),
        ("wifi,loss=0.1", 'the link model "wifi" has a loss of its own'),
        ("0mbps", r"service\.rate_mbps"),
        ("48mbps,1.2.3ms", "expected a number"),
        ("1e400mbps", "expected a finite number"),
    ],
)
def test_a_wrong_link_is_refused_by_its_part(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_link(text)


def test_matches_are_pairs_and_groups_with_every_rotation_of_round_trip_times() -> None:
    found = matches_of(plan("cubic", "reno", groups=("reno+bbr+bbr",)), LINK)
    assert [match.name for match in found] == ["cubic+cubic", "cubic+reno", "reno+reno", "reno+bbr+bbr"]
    assert [len(match.orders()) for match in found] == [1, 2, 1, 3]
    uneven = matches_of(plan("cubic", "reno", rtts_ms=[(20.0, 80.0)]), LINK)
    assert [match.rtts for match in uneven] == ["20+80", "20+80", "80+20", "20+80"]


def test_reno_beside_itself_is_fair() -> None:
    rows = compete(plan("reno", duration_s=40.0, seeds=2))
    assert len(rows) == 4
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert first["share"] + second["share"] == pytest.approx(1, abs=1e-12)
        assert 0.44 < first["share"] < 0.56 and first["jain_weighted"] > 0.98 and first["utilisation"] > 0.95
        # Who has half of what it has alone is harmed by a half.
        for row in (first, second):
            assert row["harm_throughput"] == pytest.approx(1 - row["throughput_mbps"] / row["solo_throughput_mbps"])
            assert row["harm_throughput"] == pytest.approx(0.5, abs=0.06)
            assert row["solo_throughput_mbps"] == pytest.approx(24, rel=0.03) and row["convergence_time_s"] < 20
    assert rows[0]["start_s"] == 0 and rows[1]["start_s"] != rows[3]["start_s"]


def test_beside_one_that_sends_next_to_nothing_nobody_is_harmed() -> None:
    rows = compete(plan("fixed@window=1", "cubic", links=[parse_link("24mbps,20ms,packets=400")], rtts_ms=[(20, 2000)]))
    (row,) = [r for r in rows if r["entrant"] == "cubic" and r["opponents"] != "cubic" and r["base_rtt_ms"] == 20][:1]
    assert abs(row["harm_throughput"]) < 0.01 and abs(row["harm_delay"]) < 0.02


def test_a_link_that_delivers_nothing_gives_rows_without_shares() -> None:
    dead = parse_link("24mbps,loss=1")
    rows = compete(plan("cubic", "bbr", links=[dead]))
    assert {row["throughput_mbps"] for row in rows} == {0.0}
    assert all(np.isnan(row["share"]) for row in rows)
    assert all("–" in line for line in cells(summarise(rows)))


def test_harm_of_delay_is_what_the_other_s_queue_adds_to_the_round_trip() -> None:
    """Two constant windows share a queue that holds both: 20 packets alone fill half of the pipe's 40."""
    link = parse_link("24mbps,20ms,infinite")
    rows = compete(plan("fixed@window=20", "fixed@window=100", links=[link]))
    row = next(r for r in rows if r["entrant"] == "fixed@window=20" and r["opponents"] == "fixed@window=100")
    # Delayed acknowledgements let packets go in pairs, whose second one waits for the first, 0.5 ms.
    assert row["solo_queueing_delay_mean_ms"] == pytest.approx(0.25, abs=0.01)
    # 120 packets of 0.5 ms in a round trip of 20 ms: 40 ms of them wait.
    assert row["queueing_delay_mean_ms"] == pytest.approx(39.5, abs=1)
    assert row["harm_delay"] == pytest.approx(40 / 60, abs=0.02)
    assert row["share"] == pytest.approx(1 / 6, abs=0.01)


def test_weights_are_what_is_fair() -> None:
    rows = compete(plan(groups=("wcc-ai+wcc-ai@weight=3",), duration_s=40.0, seeds=2))
    heavy = [row for row in rows if row["entrant"] == "wcc-ai@weight=3"]
    assert {row["fair_share"] for row in heavy} == {0.75}
    assert np.mean([row["share"] for row in heavy]) == pytest.approx(0.75, abs=0.05)
    assert min(row["jain_weighted"] for row in rows) > 0.95


def test_a_trained_policy_competes_like_anybody() -> None:
    rows = compete(plan(groups=(f"acct={GOLDEN}+cubic",)))
    assert {row["entrant"] for row in rows} == {"acct", "cubic"}
    assert all(row["throughput_mbps"] > 0.1 and row["solo_throughput_mbps"] > 1 for row in rows)


def test_a_policy_that_was_trained_on_the_trace_says_so_in_the_table(tmp_path: Path) -> None:
    (tmp_path / "walk").write_text("".join(f"{ms}\n" for ms in range(1, 2000, 2)))
    seen = {"kind": "trace", "name": "walk", "digest": "0"}
    trained = artifact.load(GOLDEN)
    replace(trained, trained_on=[*trained.trained_on, seen]).save(tmp_path / "mine.safetensors")
    result = competition.compete(
        tmp_path / "mine.safetensors", f"other={GOLDEN}", traces=[tmp_path / "walk"], duration_s=1, seeds=1
    )
    entrants = {row["entrant"] for row in result.flows}
    assert entrants == {"mine (trained on tested links)", "other"}


def test_requirements_are_held_against_what_was_got() -> None:
    rows = compete(plan(groups=("reno@requirement=6:12+cubic",)))
    for row in rows:
        if row["scheme"] == "reno":
            assert row["satisfaction_throughput"] == pytest.approx(row["throughput_mbps"] / 6)
        else:
            assert "satisfaction_throughput" not in row


def test_the_same_plan_gives_the_same_rows_on_any_number_of_threads() -> None:
    several = plan("cubic", "acct=10", groups=("reno+bbr+bbr",), rtts_ms=[(20, 60)], duration_s=3.0, seeds=2)
    one, two = compete(several, threads=1), compete(several, threads=3)
    np.testing.assert_equal(one, two)
    shares: dict[tuple[Any, ...], float] = {}
    for row in one:
        key = (row["match"], row["match_rtts_ms"], row["order"], row["seed"])
        shares[key] = shares.get(key, 0.0) + row["share"]
    assert shares and all(total == pytest.approx(1) for total in shares.values())


def test_the_short_round_trip_wins() -> None:
    rows = compete(
        plan("reno", rtts_ms=[(20, 20), (20, 100)], duration_s=30.0, links=[parse_link("24mbps,packets=60")])
    )
    even, uneven = matrices(summarise(rows), ["reno"])
    assert (even.rtts_ms, uneven.rtts_ms) == ((20, 20), (20, 100))
    assert uneven.figures["share"][0, 0] > 0.65 > even.figures["share"][0, 0]
    near, far = (next(e for e in summarise(rows) if e["base_rtt_ms"] == rtt and "100" in e["match_rtts_ms"])
                 for rtt in (20, 100))  # fmt: skip
    assert near["share"]["mean"] + far["share"]["mean"] == pytest.approx(1)
    assert near["runs"] == 2 and near["share"]["mean"] == pytest.approx(uneven.figures["share"][0, 0])


def test_matrices_are_of_the_row_beside_the_column() -> None:
    rows = compete(plan("cubic", "reno", seeds=2))
    summary = summarise(rows)
    (matrix,) = matrices(summary, ["cubic", "reno"])
    share, harm = matrix.figures["share"], matrix.figures["harm_throughput"]
    assert share[0, 1] + share[1, 0] == pytest.approx(1) and np.isfinite(share).all() and (matrix.fair == 0.5).all()
    beside = [row["harm_throughput"] for row in rows if row["entrant"] == "reno" and row["opponents"] == "cubic"]
    assert len(beside) == 4 and harm[1, 0] == pytest.approx(np.mean(beside))
    # What the table says: beside itself, the mean of both flows.
    (itself,) = (entry for entry in summary if entry["match"] == "reno+reno")
    assert share[1, 1] == itself["share"]["mean"] == pytest.approx(0.5)
    assert [line[1] for line in cells(summarise(rows))] == ["cubic", "cubic", "reno", "reno"]


def test_scenarios_lend_their_links(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(
        "links:\n  - {service: {type: constant, rate_mbps: 50}, delay_ms: 5}\n"
        "  - {service: {type: constant, rate_mbps: 12}, delay_ms: 15, queue: {type: droptail, packets: 40}}\n"
        "flows: [{scheme: nobody}]\n"
    )
    bottleneck = from_scenario(path)
    assert (bottleneck.name, bottleneck.base_rtt_ms, len(bottleneck.links)) == ("two.yaml", 40, 2)
    rows = compete(plan("reno", links=[bottleneck]))
    assert sum(row["throughput_mbps"] for row in rows) == pytest.approx(12, rel=0.05)
    with pytest.raises(ScenarioError, match=r"two\.yaml.*10 ms.*base_rtt_ms"):
        compete(plan("reno", links=[bottleneck], rtts_ms=[(10.0,)]))
    path.write_text("links: [{service: {type: constant, rate_mps: 50}}]\n")
    with pytest.raises(ScenarioError, match=r'two\.yaml: links\[0\].*did you mean "rate_mbps"'):
        from_scenario(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duration_s": 0.5}, "--duration-s 0.5: expected 1"),
        ({"stagger_s": -1.0}, "--stagger-s -1"),
        ({"stagger_s": float("nan")}, "--stagger-s nan"),
        ({"seeds": 0}, "--seeds 0"),
        ({"rtts_ms": [(20.0, 0.0)]}, "--rtt-ms 20,0"),
        ({"links": [parse_link("100gbps")], "duration_s": 100.0}, "would record .* packets"),
    ],
)
def test_plans_that_cannot_be_run_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compete(plan("reno", **changes))
    with pytest.raises(ConfigError, match="nobody competes"):
        compete(plan())


def test_runs_that_failed_or_were_late_count_in_no_mean() -> None:
    rows = [{**row, "valid": True, "error": "", "share": 0.5} for row in compete(plan("cubic", "reno", seeds=2))]
    late = list(rows)
    for k, row in enumerate(rows):
        if row["match"] == "reno+reno":
            late[k] = {**row, "valid": False, "share": 7.0}
        elif row["match"] == "cubic+reno" and row["seed"] == 2:
            late[k] = {**row, "error": "reno: silent", "share": 7.0}
    runs = {entry["match"]: (entry["runs"], entry["share"]["mean"]) for entry in summarise(late)}
    assert runs["cubic+cubic"] == (2, 0.5) and runs["cubic+reno"] == (2, 0.5) and runs["reno+reno"][0] == 0
    assert left_out(rows) == []
    failed, delayed = left_out(late)
    assert failed == "2 of 4 runs of cubic + reno on 24mbps,20ms,1bdp failed; reno: silent."
    assert delayed.startswith("In 2 of 8 runs")
    only_late = [row for row in late if row["match"] == "reno+reno"]
    assert all("–" in line for line in cells(summarise(only_late)))
    assert findings(summarise(only_late)) == []


def command(*words: str) -> int:
    return cli.main(["compete", *words, "--duration-s", "3", "--stagger-s", "1", "--seeds", "2"])


def test_the_command_writes_rows_result_and_heat_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("cubic", "reno", "--group", "cubic+bbr+bbr", "--link", "12mbps", "--out", str(tmp_path), "--json")
    assert command(*words) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads((tmp_path / "compete.json").read_text())
    assert set(result) == {"meta", "summary", "rows"} and result["meta"]["complete"] is True
    assert [entrant["label"] for entrant in result["meta"]["entrants"]] == ["cubic", "reno", "bbr"]
    assert result["meta"]["ccarena"] == __version__
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    # 1 + 2 + 1 orders of pairs and 3 of the group, 2 seeds.
    assert len(rows) == len(result["rows"]) == 2 * (4 * 2 + 3 * 3)
    assert float(rows[0]["throughput_mbps"]) == pytest.approx(result["rows"][0]["throughput_mbps"], rel=1e-5)
    docs = Path(__file__).parents[3] / "docs"
    documented = "".join((docs / page).read_text("utf-8") for page in ("compete.md", "figures.md"))
    for key in {*result["rows"][0], *result["summary"][0]}:
        assert f"`{key}`" in documented, key
    page = (tmp_path / "compete.html").read_text("utf-8")
    assert "Row&#x27;s share" in page and "cubic + bbr + bbr" in page


def test_the_command_prints_a_table_per_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    links = ("--link", "12mbps,packets=30", "--link", "24mbps,10ms")
    assert command("reno", *links, "--out", str(tmp_path)) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^\d+mbps\S*", out, flags=re.M) == ["12mbps,packets=30", "24mbps,10ms"]
    assert out.count("reno + reno") == 2 and "rate harm" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cubik",), 'did you mean "cubic"'),
        ((), "nobody competes"),
        (("reno", "--link", "1mbps", "--link", "1mbps"), 'link "1mbps" is given twice'),
        (("reno", "--rtt-ms", "20,x"), '--rtt-ms "20,x": an RTT is "x"'),
        (("--group", "reno"), "two entrants or more"),
        (("reno", "--threads", "0"), "--threads 0"),
        (
            ("reno", "kernel:bbr"),
            'entrant "kernel:bbr": a congestion control of the kernel\'s TCP, which does not run in '
            "the simulator; use --backend kernel",
        ),
        (("kernel:bbr", "--backend", "quic"), "does not run over QUIC; use --backend kernel"),
        (("abc", "cubic", "--backend", "kernel"), "leave it out, or run it with --backend sim"),
        (("reno", "--backend", "kernel", "--link", "10gbps"), "keeps its schedule up to 5000 Mbit/s"),
    ],
)
def test_the_command_refuses_in_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*words, "--out", str(tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error
    assert not (tmp_path / "out").exists()


def test_an_interruption_keeps_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def stop_at_three(title: str, unit: str) -> Iterator[Any]:
        def progress(done: int, total: int) -> None:
            if done == 3 < total:
                raise KeyboardInterrupt

        yield progress

    monkeypatch.setattr(competition, "progress_bar", stop_at_three)
    assert command("cubic", "reno", "--out", str(tmp_path)) == cli.INTERRUPTED
    error = capsys.readouterr().err
    assert re.fullmatch(
        rf"error: interrupted; what was finished \(6 flows\) is in {tmp_path}; start over with: ccarena compete .*\n",
        error,
    )
    result = json.loads((tmp_path / "compete.json").read_text())
    assert result["meta"]["complete"] is False and len(result["rows"]) == 6


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[3]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(root / "examples")
    text, *_ = re.findall(r"^```sh\n(.*?)^```$", (root / "docs/compete.md").read_text("utf-8"), flags=re.S | re.M)
    lines = [shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines()]
    lines = [line for line in lines if line]
    assert len(lines) >= 4
    for words in lines:
        assert words[0] == "ccarena"
        short = ["--duration-s", "2", "--seeds", "1"] if words[1] == "compete" else []
        assert cli.main(words[1:] + short) == 0, words


def test_a_class_that_fails_is_named_with_its_match_and_the_others_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(
        "import ccarena\n\n\nclass Bad(ccarena.Controller):\n"
        "    def on_ack(self, ack):\n        raise ValueError('no')\n"
    )
    assert command("bad.py:Bad", "cubic", "--out", "there") != 0
    printed = capsys.readouterr().err
    assert "Bad+Bad on 48mbps,20ms,1bdp, seed 1: Bad.on_ack of flow0 raised ValueError: no" in printed
    assert "6 of 8 runs failed like this" in printed and "what was finished (4 flows) is in there" in printed
    result = json.loads(Path("there/compete.json").read_text())
    assert {row["match"] for row in result["rows"]} == {"cubic+cubic"} and result["meta"]["complete"] is False


def test_the_result_identifies_policies_by_name_and_digest(tmp_path: Path) -> None:
    own = tmp_path / "mine.safetensors"
    shutil.copy(shipped_policies()["acct"], own)
    result = ccarena.compete("acct", f"own={own}", links=["12mbps"], duration_s=1, stagger_s=0, seeds=1)
    meta = json.loads(json.dumps(result.result()))["meta"]
    first, second = meta["entrants"]
    assert (first["policy"], second["policy"]) == ("acct", "mine.safetensors")
    assert first["digest"] == second["digest"] and first["digest"].startswith(meta["digests"]["acct"])
