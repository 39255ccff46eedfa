"""Programs and congestion controls of others on the emulated link: what they carry, and what their faults become."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: programs of others are not tested (run make)")

from ccarena import cli
from ccarena.errors import CcarenaError, MachineError
from ccarena.eval.compete.competition import compete
from ccarena.eval.heldout.outcome import evaluate
from ccarena.scenarios.backends import execute
from ccarena.scenarios.entrants import parse
from ccarena.scenarios.run import run
from ccarena.scenarios.tables import flow_rows

pytestmark = pytest.mark.usefixtures("kernel")
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "controllers"

SENDER = """
import os, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to = (os.environ["CCARENA_RECEIVER"], int(os.environ["CCARENA_PORT"]))
due = time.monotonic()
end = due + float(os.environ["CCARENA_DURATION_S"])
while due < end:
    s.sendto(b"x" * 1000, to)
    # By the clock: pauses that last too long would add up.
    due += 0.004
    time.sleep(max(0.0, due - time.monotonic()))
"""
RECEIVER = """
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((os.environ["CCARENA_RECEIVER"], int(os.environ["CCARENA_PORT"])))
while True:
    s.recv(2000)
"""
RENO = """

#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
struct sock { unsigned long sk_pacing_rate; } __attribute__((preserve_access_index));
struct tcp_congestion_ops {
    __u32 (*ssthresh)(struct sock *sk);
    void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
    __u32 (*undo_cwnd)(struct sock *sk);
    char name[16];
} __attribute__((preserve_access_index));
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
SEC("struct_ops") __u32 BPF_PROG(theirs_ssthresh, struct sock *sk) { return tcp_reno_ssthresh(sk); }
SEC("struct_ops") void BPF_PROG(theirs_avoid, struct sock *sk, __u32 ack, __u32 acked)
{ tcp_reno_cong_avoid(sk, ack, acked); }
SEC("struct_ops") __u32 BPF_PROG(theirs_undo, struct sock *sk) { return tcp_reno_undo_cwnd(sk); }
SEC(".struct_ops.link") struct tcp_congestion_ops theirs = {
    .ssthresh = (void *)theirs_ssthresh, .cong_avoid = (void *)theirs_avoid, .undo_cwnd = (void *)theirs_undo,
    .name = "theirs",
};
char _license[] SEC("license") = "GPL";
"""


def entrant(folder: Path, **fields: Any) -> str:
    """An entrant file in `folder`; without other `fields`, two programs that send 2 Mbit/s of UDP."""
    (folder / "sender.py").write_text(SENDER)
    (folder / "receiver.py").write_text(RECEIVER)
    fields = {
        "name": "theirs",
        "kind": "command",
        "sender": "python3 {folder}/sender.py",
        "receiver": ["python3", "{folder}/receiver.py"],
        "ready": "udp",
    } | fields
    path = folder / "theirs.yaml"
    path.write_text(yaml.safe_dump(fields))
    return str(path)


def on_link(*schemes: str, seconds: float = 2.0, backend: str = "kernel", **flow: Any) -> dict[str, Any]:
    link = {
        "service": {"type": "constant", "rate_mbps": 10},
        "queue": {"type": "droptail", "packets": 40},
        "delay_ms": 10,
    }
    flows = [{**parse(scheme).flow, **flow} for scheme in schemes]
    return execute({"duration_s": seconds, "links": [link], "flows": flows, "record": {"packets": True}}, backend)


@pytest.mark.alone
@pytest.mark.parametrize("backend", ["kernel", "quic"])
def test_two_programs_share_the_link_with_a_scheme_of_ours(tmp_path: Path, backend: str) -> None:
    result = on_link(entrant(tmp_path), "copa", entrant(tmp_path), backend=backend)
    theirs, ours, others = result["flows"]
    assert not any("error" in flow for flow in result["flows"]), result["flows"]
    log = result["links"][0]["log"]
    for number, flow in ((0, theirs), (2, others)):
        # The program goes on until it is stopped; its rates end with the scenario, as the link's log does.
        assert flow["delivered_bytes_until_stop"] >= flow["delivered_bytes"]
        assert flow["wire_bytes"] <= 1028 * (log["flow"] == number).sum()
        # From packet to packet: when a program is up is the machine's matter.
        sent_s = log["arrival_ns"][log["flow"] == number].astype(float) / 1e9
        assert (len(sent_s) - 1) * 1000 * 8e-6 / (sent_s[-1] - sent_s[0]) == pytest.approx(2.0, rel=0.1)
        assert len(sent_s) > 50 and 950 * len(sent_s) < flow["delivered_bytes"] < 1.1 * 2.0e6 / 8 * 2
        assert flow["wire_bytes"] * 1000 == flow["delivered_bytes"] * 1028
    assert ours["delivered_bytes"] > 0.3e6
    assert set(log["flow"]) == {0, 1, 2}


@pytest.mark.alone
@pytest.mark.skipif(not shutil.which("iperf3"), reason="IPERF3 NOT INSTALLED: its own figures are not compared")
def test_throughput_of_a_tcp_is_that_which_it_measures_itself(tmp_path: Path) -> None:
    out = tmp_path / "iperf3.json"
    file = entrant(
        tmp_path,
        needs=["iperf3"],
        sender="iperf3 -c {receiver} -p {port} -t 3 -J --logfile " + str(out),
        receiver="iperf3 -s -1 -p {port}",
        ready="tcp",
    )
    [flow] = on_link(file, seconds=4)["flows"]
    received = json.loads(out.read_text())["end"]["sum_received"]
    assert flow["delivered_bytes_until_stop"] == pytest.approx(received["bytes"], rel=0.02)
    assert flow["sent_packets"] >= flow["delivered_bytes"] / 1448


@pytest.mark.alone
def test_a_transfer_completes_when_its_last_byte_arrives(tmp_path: Path) -> None:
    sender = (
        "import os, socket; to = os.environ['CCARENA_RECEIVER'], int(os.environ['CCARENA_PORT'])\n"
        "s = socket.create_connection(to); s.sendall(bytes(int(os.environ['CCARENA_BYTES']))); s.close()"
    )
    receiver = (
        "import os, socket; s = socket.create_server(('', int(os.environ['CCARENA_PORT']))); c, _ = s.accept()\n"
        "while c.recv(65536): pass"
    )
    file = entrant(tmp_path, sender=["python3", "-c", sender], receiver=["python3", "-c", receiver], ready="tcp")
    [flow] = on_link(file, app={"type": "transfers", "sizes_bytes": [500_000]})["flows"]
    assert "error" not in flow, "a sender may end when it has sent all"
    assert flow["delivered_bytes"] == 500_000
    [completion_s] = flow["completion_s"]
    assert 0.42 < completion_s < 1.2


def compiled(source: Path, target: Path) -> None:
    """Compiles a BPF object as docs/entrant-files.md says, with the headers of this package's own programs."""
    headers = sorted(ROOT.glob("target/*/build/libbpf-sys-*/out/include"))
    if not headers:
        pytest.skip("LIBBPF'S HEADERS NOT BUILT HERE: no BPF object is built")
    multiarch = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True).stdout.strip()
    flags = ["-target", "bpf", "-g", "-O2", "-D__TARGET_ARCH_x86", "-isystem", str(headers[0])]
    flags += ["-isystem", f"/usr/include/{multiarch}", "-Wall", "-Werror"]
    subprocess.run(["clang", *flags, "-c", source, "-o", target], check=True)


def _children() -> set[str]:
    return set(subprocess.run(["pgrep", "-f", "ccarena_hostile"], capture_output=True, text=True).stdout.split())


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "silent": ({"sender": "python3 -c 'import time; time.sleep(60)'"}, "the sender sent no packet with data"),
    "refuses": (
        {"sender": "python3 -c 'raise SystemExit(\"no licence key\")'"},
        "exit status 1 after .*no licence key",
    ),
    "deaf": (
        {"receiver": "python3 -c 'raise SystemExit(3)'"},
        "the receiver ended with exit status 3 before it was ready",
    ),
    "unbound": (
        {"receiver": "sleep 60", "ready_within_s": 0.3},
        r"was not ready within 0.3 s \(no UDP socket is bound",
    ),
    "quiet": ({"ready": {"output": "listening"}, "ready_within_s": 0.3}, 'has not printed "listening"'),
    "killed": (
        {"sender": "python3 -c 'import os; os.kill(os.getpid(), 9)'"},
        "the sender ended with (signal 9|exit status)",
    ),
    "forks": (
        {"processes": 20, "sender": "python3 -c 'import os\nwhile True: os.fork()'"},
        "started more than 20 processes",
    ),
    "grows": (
        {"memory_mb": 64, "sender": "python3 -c 'b = bytearray(1 << 30); b[::4096] = b\"x\" * (1 << 18)'"},
        "the sender ended with",
    ),
}
"""Faulty programs, and what is said of each."""


@pytest.mark.alone
def test_faults_of_programs_are_results_that_say_so_and_harm_no_other_flow(tmp_path: Path) -> None:
    begun = time.monotonic()
    entrants = []
    for name, (fields, _) in FAULTS.items():
        (tmp_path / name).mkdir()
        entrants.append(entrant(tmp_path / name, name=name, **fields))
    # All start at once: of so many on a busy machine some take a second until they do anything.
    *faulty, ours = on_link(*entrants, "cubic", seconds=4)["flows"]
    for number, (flow, (name, (_, said))) in enumerate(zip(faulty, FAULTS.items(), strict=True)):
        assert flow["error"].startswith(f"flows[{number}] ({name}): ")
        assert re.search(said, flow["error"]), flow["error"]
    assert "error" not in ours and ours["delivered_bytes"] > 2e6
    assert time.monotonic() - begun < 20, "nobody waits for programs that would sleep for a minute"


@pytest.mark.alone
def test_nothing_of_a_program_outlives_its_run(tmp_path: Path) -> None:
    # Daemons leave their parent and their session, and would go on for a minute.
    daemon = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', ['ccarena_hostile', '61'])\n"
        "time.sleep(60)"
    )
    before = {name for name in os.listdir("/tmp") if name.startswith("ccarena-programs")}
    on_link(entrant(tmp_path, sender=["python3", "-c", daemon]), seconds=1)
    assert not _children()
    assert {name for name in os.listdir("/tmp") if name.startswith("ccarena-programs")} == before
    groups = [p for tree in ("", "pids", "memory") for p in Path("/sys/fs/cgroup", tree).glob("ccarena-*")]
    assert not groups


def test_a_program_that_is_not_here_is_refused_before_the_run(tmp_path: Path) -> None:
    file = entrant(tmp_path, needs=["no-such-program"], obtain="apt install nothing")
    with pytest.raises(MachineError, match="no-such-program is not on this machine; get it so: apt install nothing"):
        parse(file)
    with pytest.raises(CcarenaError, match=r'flows\[0\].foreign: cannot run "no-such-program"'):
        on_link(entrant(tmp_path, receiver="no-such-program"))


@pytest.mark.alone
def test_congestion_controls_of_the_kernel_run_by_name() -> None:
    result = on_link("kernel:bbr", "kernel:cubic", seconds=2)
    assert [flow["scheme"] for flow in result["flows"]] == ["kernel:bbr", "kernel:cubic"]
    assert all(flow["delivered_bytes"] > 1e5 for flow in result["flows"])
    with pytest.raises(CcarenaError, match='the kernel refuses congestion control "nothere"'):
        on_link("kernel:nothere")


@pytest.mark.alone
@pytest.mark.skipif(not shutil.which("clang"), reason="CLANG NOT INSTALLED: no BPF object is built")
def test_a_bpf_object_is_loaded_for_the_run_and_gone_after_it(tmp_path: Path) -> None:
    (tmp_path / "theirs.bpf.c").write_text(RENO)
    compiled(tmp_path / "theirs.bpf.c", tmp_path / "theirs.bpf.o")
    file = tmp_path / "theirs.yaml"
    file.write_text("name: theirs\nkind: bpf\nobject: theirs.bpf.o\n")
    result = on_link(str(file), "cubic", str(file))
    assert all(flow["delivered_bytes"] > 1e5 for flow in result["flows"])
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert "theirs" not in available
    (tmp_path / "theirs.bpf.o").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(CcarenaError, match=r"flows\[0\] \(theirs\): object: .*theirs.bpf.o"):
        on_link(str(file))


@pytest.mark.alone
@pytest.mark.skipif(not shutil.which("clang"), reason="CLANG NOT INSTALLED: no BPF object is built")
def test_the_example_of_a_bpf_object_fills_a_link_and_yields_to_a_loss_as_it_says(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "aimd.yaml", tmp_path)
    compiled(EXAMPLES / "aimd.bpf.c", tmp_path / "aimd.bpf.o")
    [flow] = on_link(str(tmp_path / "aimd.yaml"), seconds=6)["flows"]
    assert flow["scheme"] == "aimd" and flow["delivered_bytes"] > 0.85 * 10e6 / 8 * 6
    assert 1 <= flow["lost_packets"]


@pytest.mark.alone
def test_tables_of_a_scenario_have_the_same_figures_for_programs(tmp_path: Path) -> None:
    entrant(tmp_path)
    document = {
        "duration_s": 2,
        "links": [{"service": {"type": "constant", "rate_mbps": 10}}],
        "flows": [{"scheme": "theirs.yaml"}],
    }
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(document))
    [row] = flow_rows(run(path, backend="kernel").runs)
    assert row["scheme"] == "theirs" and row["error"] == ""
    assert row["throughput_mbps"] == pytest.approx(2.0, rel=0.3)
    assert row["sent_packets"] == pytest.approx(500, rel=0.3)
    for unknown in ("rtt_mean_ms", "timeouts", "retransmitted_packets", "lost_packets", "inferences_per_s"):
        assert math.isnan(row[unknown]), unknown
    with pytest.raises(CcarenaError, match="run it in real time: --backend kernel"):
        run(path)


@pytest.mark.alone
def test_a_program_competes_beside_ours_and_a_failed_one_counts_in_no_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dies").mkdir()
    dies = entrant(tmp_path / "dies", name="dies", sender="python3 -c 'raise SystemExit(3)'")
    theirs = entrant(tmp_path)
    short = {"links": ["10mbps"], "stagger_s": 0.2, "duration_s": 2.0, "backend": "kernel"}
    rows = compete(groups=[f"{theirs}+cubic"], **short).flows
    assert len(rows) == 4 and not any(row["error"] for row in rows)
    for row in rows:
        alone = 2.0 * 1.028 if row["entrant"] == "theirs" else 9.5
        assert row["solo_throughput_mbps"] == pytest.approx(alone, rel=0.2)
        beside = 1 - row["throughput_mbps"] / row["solo_throughput_mbps"]
        assert row["harm_throughput"] == pytest.approx(beside) and "rtt_mean_ms" not in row
    (first, second) = [row["share"] for row in rows if row["order"] == "1+2"]
    assert first + second == pytest.approx(1) and 0.1 < first < 0.35
    words = ["compete", "--group", f"{dies}+{dies}", "--backend", "kernel", "--out", str(tmp_path / "out")]
    assert cli.main([*words, "--link", "10mbps", "--stagger-s", "0", "--duration-s", "1"]) == 0
    out, err = capsys.readouterr()
    assert "3 runs on kernel TCP, one at a time: about" in err
    assert "IN NO MEAN: 1 of 1 runs of dies + dies on 10mbps failed; dies: the sender ended with exit status 3" in out
    assert "failed; dies" in (tmp_path / "out" / "compete.html").read_text("utf-8")


@pytest.mark.alone
def test_a_program_is_evaluated_and_a_failed_one_counts_in_no_mean(tmp_path: Path) -> None:
    (tmp_path / "dies").mkdir()
    dies = entrant(tmp_path / "dies", name="dies", sender="python3 -c 'raise SystemExit(3)'")
    found = evaluate(entrant(tmp_path), dies, link_sets=["slides"], seeds=1, duration_s=1, backend="kernel")
    rows = {row["scheme"]: row for row in found.evaluation.rows}
    assert rows["theirs"]["error"] == "" and rows["theirs"]["throughput_mbps"] == pytest.approx(2.0, rel=0.2)
    assert rows["dies"]["error"].startswith("the sender ended with exit status 3")
    assert "dies" not in set(found.summary()["scheme"])
    [warning] = [text for text in found.evaluation.warnings if text.startswith("dies")]
    assert warning.startswith("dies failed in 1 of 1 runs, which no mean counts; on 48 Mbit/s, 30 ms, seed 0: the sen")
    with pytest.raises(CcarenaError, match=r'theirs\.yaml": a program, which does not run in the simulator'):
        evaluate(entrant(tmp_path), link_sets=["slides"], seeds=1, duration_s=1)
