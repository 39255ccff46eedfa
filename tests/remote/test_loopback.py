"""Runs to a server on this machine: what both ends saw agrees, and what goes wrong says why."""

from __future__ import annotations

import contextlib
import csv
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: runs between machines not tested (run make)")

from ccarena import cli
from ccarena.errors import ConfigError, MachineError, PolicyError, ScenarioError
from ccarena.remote import records
from ccarena.remote.run import run_scenario
from ccarena.scenarios.results import Results
from tests.remote.conftest import Server

pytestmark = [pytest.mark.alone, pytest.mark.linux]
Serve = Callable[..., Server]
ROOT = Path(__file__).parents[2]


def steady(seconds: float = 1.0, mbps: float = 4, **flow: Any) -> dict[str, Any]:
    flow = {"scheme": "cubic", "app": {"type": "cbr", "rate_mbps": mbps}, **flow}
    record = {"packets": True, "series": True, "transmissions": True}
    return {"duration_s": seconds, "flows": [flow], "record": record}


@pytest.mark.parametrize("reverse", [False, True])
def test_both_ends_saw_the_same_packets(serve: Serve, secret: str, reverse: bool) -> None:
    server = serve()
    transfers = {"scheme": "reno", "app": {"type": "transfers", "sizes_bytes": [50_000, 50_000], "gap_s": 0.1}}
    document = steady()
    document["flows"] += [transfers, {"scheme": "acct", "policy": {"constant": 0}, "start_s": 0.3, "stop_s": 0.6}]
    result = run_scenario(document, address=server.address, token=secret, reverse=reverse)
    assert [flow.get("error") for flow in result["flows"]] == [None] * 3
    flow, transfer, learned = result["flows"]
    assert flow["delivered_bytes"] * 8e-6 == pytest.approx(4, rel=0.1)
    assert transfer["delivered_bytes"] == 100_000 and len(transfer["completion_s"]) == 2
    assert learned["decisions"] > 0 and learned["delivered_bytes"] > 0
    sent = flow["transmissions"]
    assert np.all(np.diff(sent["sent_ns"].astype(np.int64)) >= 0)
    came = sent["fate"] == 1
    assert came.mean() > 0.9 and np.array_equal(came, sent["arrived_ns"] > 0)
    assert np.all(sent["arrived_ns"][came] + 1_000_000 > sent["sent_ns"][came])
    [link] = result["links"]
    assert link["name"] == "path" and link["capacity_bytes"] == 0 and np.isnan(link["capacity_mbps"]).all()
    waited = link["log"]["departure_ns"].astype(np.int64) - link["log"]["arrival_ns"].astype(np.int64)
    assert waited.min() == 0
    path = result["path"]
    # Both ends have the same clock, whose zeros lie as far apart as their starts.
    assert abs(path["one_way_ms"]) <= path["clock_uncertainty_ms"] + 1 and path["clock_offset_ms"] > 0
    line = server.line()
    assert (line["flows"], line["duration_s"], line["reverse"]) == (3, 1.0, reverse) and line["peer"].startswith(
        "127.0.0.1:"
    )


def test_the_command_keeps_each_run_and_makes_tables(
    serve: Serve, secret: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, file, out = serve(), tmp_path / "s.yaml", tmp_path / "out"
    file.write_text('duration_s: 0.4\nflows:\n  - {scheme: "${entrant}", app: {type: cbr, rate_mbps: 3}}\n')
    words = [
        "remote",
        "run",
        server.address,
        str(file),
        "cubic",
        "kernel:reno",
        "--token",
        str(server.token),
        "--out",
        str(out),
    ]
    assert cli.main([*words, "--repeats", "2"]) == 0
    said = capsys.readouterr().out
    assert "least one-way delay" in said and f"ccarena fit {out}" in said
    assert f"{file} to {server.address}: 4 runs" in " ".join(said.split())
    table = [line.split() for line in said.splitlines() if " path " in line]
    assert [row[:2] for row in table] == [["cubic", "flow0"], ["kernel:reno", "flow0"]], (
        "a row per entrant, in their order"
    )
    assert said.count("Intervals are over 2 runs, ") == 1
    drops = [row["queue_drop_share"] for row in csv.DictReader((out / "flows.csv").open())]
    assert drops == [""] * 4, "no queue of the path can be looked into"
    runs = [run for run, _ in records.load_folder(out)]
    assert [run.seed for run in runs] == [1, 1, 2, 2]
    assert (
        {run.axes["entrant"] for run in runs[:2]}
        == {run.axes["entrant"] for run in runs[2:]}
        == {"cubic", "kernel:reno"}
    )
    for run in runs:
        assert run.document["links"][0]["delay_ms"] == max(0.0, run.result["path"]["one_way_ms"])
    with pytest.raises(ConfigError, match="on remote tcpdump captures the real packets"):
        Results(tuple(runs)).pcap(tmp_path / "x.pcap")
    assert set(Results(tuple(runs)).packets()["fate"]) <= {"delivered", "lost", "under way"}
    rows = (out / "flows.csv").read_text().splitlines()
    assert len(rows) == 5 and "remote" in rows[1] and (out / "page.html").is_file()
    assert cli.main([*words, "--repeats", "2", "--resume", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(row["entrant"], row["seed"]) for row in printed] == [
        (e, s) for e in ("cubic", "kernel:reno") for s in (1, 2)
    ]
    assert cli.main(words) == 2
    assert "holds measured runs; go on by --resume, give another folder" in capsys.readouterr().err
    assert cli.main(["fit", str(out), "--json", str(tmp_path / "fit.json")]) == 0
    said = capsys.readouterr().out
    assert "rate: at least" in said and "left out: 2 runs with flows of the kernel's TCP" in said
    fitted = json.loads((tmp_path / "fit.json").read_text())
    assert fitted["fit"]["rate_mbps"] == pytest.approx(3, rel=0.2) and len(fitted["figures"]) == 8
    assert cli.main(["eval", "--scenario", str(out / "fitted.yaml"), "--out", str(tmp_path / "again")]) == 0


def test_what_goes_wrong_says_why(serve: Serve, secret: str) -> None:
    server = serve("--most-s", "2", "--most-mb", "1")

    def refused(document: dict[str, Any], address: str = server.address, secret: str = secret) -> str:
        with pytest.raises((MachineError, ScenarioError)) as caught:
            run_scenario(document, address=address, token=secret)
        return str(caught.value)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed, ThreadPoolExecutor(1) as beside:
        # What goes there is never read: the client waits for an answer meanwhile.
        closed.bind(("127.0.0.1", 0))
        absent = f"127.0.0.1:{closed.getsockname()[1]}"
        unanswered = beside.submit(refused, steady(), absent)
        assert "the server's key is not that of this token" in refused(steady(), secret="0" * 64)
        assert "duration_s: got 3; expected at most 2, the limit of this server" in refused(steady(3))
        assert "the run sent more than 1 MB, the limit of this server" in refused(steady(1, mbps=40))
        assert "flows: got 33; expected at most 32" in refused({**steady(), "flows": steady()["flows"] * 33})
        assert "expected HOST:PORT" in refused(steady(), "no such host:1")
        said = f"{absent}: no answer within 5 s; is `ccarena remote serve` running there"
        assert said in unanswered.result()
    # After all of that it serves.
    assert run_scenario(steady(0.2), address=server.address, token=secret)["flows"][0]["delivered_bytes"] > 0


def test_a_server_that_sends_has_the_policy_from_the_client_and_runs_no_code(
    serve: Serve, secret: str, tmp_path: Path
) -> None:
    server = serve("--most-mb", "1")

    def run(flow: dict[str, Any], mbps: float = 2, **more: Any) -> dict[str, Any]:
        document = {**steady(0.5, mbps, **flow), **more}
        return run_scenario(document, address=server.address, token=secret, reverse=True)

    policy = tmp_path / "mine.safetensors"
    shutil.copy(ROOT / "ccarena/hyvar/policies/hyvar.safetensors", policy)
    learned = run({"scheme": "hyvar", "policy": str(policy)}, record={"reports": True})
    flow = learned["flows"][0]
    assert learned["path"]["direction"] == "reverse" and flow["decisions"] > 3
    assert flow["reports"].shape[0] >= flow["decisions"] and flow["sent_packets"] > 50
    with pytest.raises(PolicyError, match=r"flows\[0\].policy: .*none\.safetensors: cannot be read: No such file"):
        run({"scheme": "hyvar", "policy": str(tmp_path / "none.safetensors")})
    module = {"type": "wasm", "module": "mine.wasm"}
    with pytest.raises(ScenarioError, match=r"flows\[0\].controller: expected none: a server runs no code"):
        run({"scheme": "module", "controller": module})
    with pytest.raises(MachineError, match="the run sent more than 1 MB, the limit of this server"):
        run({}, mbps=40)
    # After all of that it serves, in both directions.
    assert run({})["flows"][0]["delivered_bytes"] > 0
    assert run_scenario(steady(0.2), address=server.address, token=secret)["path"]["direction"] == "forward"


def of_the_kernel(name: str = "reno") -> dict[str, Any]:
    return {"scheme": f"kernel:{name}", "foreign": {"type": "kernel", "name": name}}


@pytest.mark.parametrize("reverse", [False, True])
def test_flows_of_the_kernels_tcp_have_the_same_figures(serve: Serve, secret: str, reverse: bool) -> None:
    server = serve()
    document = steady(1.0, **of_the_kernel())
    app = {"type": "transfers", "sizes_bytes": [50_000, 50_000], "gap_s": 0.1}
    document["flows"] += [{**of_the_kernel(), "app": app, "start_s": 0.2}, {"scheme": "cubic", "app": app}]
    document["flows"].append({**of_the_kernel(), "start_s": 0.3, "stop_s": 0.6})
    result = run_scenario(document, address=server.address, token=secret, reverse=reverse)
    assert [flow.get("error") for flow in result["flows"]] == [None] * 4
    steadily, transfer, quic, short = result["flows"]
    assert steadily["delivered_bytes"] * 8e-6 == pytest.approx(4, rel=0.1)
    assert steadily["wire_bytes"] > steadily["delivered_bytes"] and steadily["rtt_min_ms"] > 0
    assert steadily["sent_packets"] >= steadily["delivered_bytes"] / 65_536
    # What the kernel does not count is not made up.
    assert steadily["undone_recoveries"] is None and steadily["ecn_reductions"] is None
    for flow in (transfer, quic):
        assert flow["delivered_bytes"] == 100_000 and len(flow["completion_s"]) == 2
    assert short["delivered_bytes"] > 0
    log = result["links"][0]["log"]
    assert log["departure_ns"][log["flow"] == 3].max() <= 0.75e9, "it stopped"
    assert set(log["flow"]) == {0, 1, 2, 3} and int(log["bytes"][log["flow"] == 1].sum()) > 100_000
    line = server.line()
    assert (line["flows"], line["reverse"]) == (4, reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_what_the_kernel_does_not_have_is_refused_before_the_run(serve: Serve, secret: str, reverse: bool) -> None:
    server = serve()

    def run(**flow: Any) -> dict[str, Any]:
        document = steady(0.3, **flow)
        return run_scenario(document, address=server.address, token=secret, reverse=reverse)

    lacks = (
        r'flows\[0\].foreign.name: the sender.s kernel has no congestion control "nosuchcontrol" '
        r"\(net.ipv4.tcp_available_congestion_control: .*modprobe tcp_nosuchcontrol"
    )
    with pytest.raises(MachineError if reverse else ScenarioError, match=lacks):
        run(**of_the_kernel("nosuchcontrol"))
    with pytest.raises(ScenarioError, match=r"flows\[0\].ecn: expected false: net.ipv4.tcp_ecn"):
        run(**of_the_kernel(), ecn=True)
    assert run(**of_the_kernel())["flows"][0]["delivered_bytes"] > 0


def test_a_server_whose_tcp_port_is_taken_says_so(serve: Serve, secret: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = serve(address=f"127.0.0.1:{taken.getsockname()[1]}")
        document = steady(0.3, **of_the_kernel())
        with pytest.raises(
            MachineError, match=r"need TCP port \d+ beside UDP port .*--listen port of which both are free"
        ):
            run_scenario(document, address=server.address, token=secret)
        assert run_scenario(steady(0.3), address=server.address, token=secret)["flows"][0]["delivered_bytes"] > 0


def test_the_servers_limit_counts_tcp(serve: Serve, secret: str) -> None:
    server = serve("--most-mb", "1")
    document = steady(1.0, mbps=40, **of_the_kernel())
    with pytest.raises(MachineError, match="the run sent more than 1 MB, the limit of this server"):
        run_scenario(document, address=server.address, token=secret)
    assert run_scenario(steady(0.3, **of_the_kernel()), address=server.address, token=secret)["links"]


def test_ipv6_has_longer_headers(serve: Serve, secret: str) -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").read_text():
        pytest.skip("NO IPV6 HERE: runs between machines over IPv6 not tested")
    server = serve(address="[::1]:0")
    result = run_scenario(steady(0.3, app={"type": "bulk"}), address=server.address, token=secret)
    assert int(result["flows"][0]["transmissions"]["bytes"].max()) == 1472 + 40 + 8
    kernel = run_scenario(steady(0.3, **of_the_kernel()), address=server.address, token=secret)["flows"][0]
    assert kernel.get("error") is None and kernel["delivered_bytes"] > 0


def test_one_run_at_a_time(serve: Serve, secret: str) -> None:
    server = serve()
    first: list[Any] = []
    thread = threading.Thread(
        target=lambda: first.append(run_scenario(steady(2), address=server.address, token=secret))
    )
    thread.start()
    server.line()
    with pytest.raises(MachineError, match="another run goes on here; wait"):
        run_scenario(steady(), address=server.address, token=secret)
    thread.join()
    assert first[0]["flows"][0]["delivered_bytes"] > 0


@pytest.mark.parametrize("who", ["server", "client"])
def test_what_was_earned_is_kept_when_an_end_goes_and_the_rest_is_made_later(
    serve: Serve, secret: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], who: str
) -> None:
    server, file, out = serve(), tmp_path / "s.yaml", tmp_path / "out"
    file.write_text('duration_s: 0.5\nflows:\n  - {scheme: "${entrant}", app: {type: cbr, rate_mbps: 1}}\n')
    words = ["remote", "run", server.address, str(file), "cubic", "bbr", "--token", str(server.token)]
    words += ["--out", str(out), "--repeats", "2"]
    client = subprocess.Popen([sys.executable, "-m", "ccarena_command", *words], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        # The command tries whether it can write here: a folder that was there may be gone.
        with contextlib.suppress(FileNotFoundError):
            if list(out.glob("runs/*.npz")):
                break
        time.sleep(0.01)
    if who == "server":
        server.process.kill()
    else:
        client.send_signal(signal.SIGINT)
    _, said = client.communicate(timeout=40)
    first = {file: file.stat().st_mtime_ns for file in out.glob("runs/*.npz")}
    assert 1 <= len(first) < 4
    assert f"{len(first)} of 4 runs were made and are in {out}; --resume makes the rest" in said
    assert ("the server is gone" in said or "no answer" in said) if who == "server" else "interrupted" in said
    assert client.returncode in ({4} if who == "server" else {130}) and (out / "flows.csv").is_file()
    if who == "server":
        serve(address=server.address)
    # The server of an interrupted client is free at once for the next.
    assert cli.main([*words, "--resume"]) == 0
    runs = [run for run, _ in records.load_folder(out)]
    assert [run.seed for run in runs] == [1, 1, 2, 2] and len((out / "flows.csv").read_text().splitlines()) == 5
    assert {file: file.stat().st_mtime_ns for file in first} == first, "finished runs are not made again"
    assert cli.main([*words, "--resume", "--order-seed", "5"]) == 2
    assert "not run 1 of this plan; resume with the scenario, entrants and options" in capsys.readouterr().err
