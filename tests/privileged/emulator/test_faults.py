"""What the emulator's shells say when something is wrong, and that they leave nothing behind."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Shell = Callable[..., "subprocess.CompletedProcess[str]"]


def interfaces() -> set[str]:
    return set(os.listdir("/sys/class/net"))


def lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def eventually(condition: Callable[[], bool], seconds: float = 5) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["delay"], 2, "MS is missing"),
        (["delay", "-1"], 2, "MS is -1"),
        (["link", "TRACE"], 2, "DOWNLINK-TRACE is missing"),
        (["link", "/nosuch", "TRACE"], 3, "/nosuch: cannot read the trace"),
        (["link", "TRACE", "TRACE", "--uplink-queue=dropptail"], 2, 'did you mean "droptail"?'),
        (["link", "TRACE", "TRACE", "--uplnk-log=x"], 2, "did you mean --uplink-log?"),
        (["link", "TRACE", "TRACE", "--uplink-log=/nosuch/log"], 1, "/nosuch/log: cannot write"),
        (["loss", "up", "0.1"], 2, "expected uplink or downlink"),
        (["onoff", "uplink", "0", "0"], 2, "both 0"),
        (["delay", "1", "--emulator=mahimahi"], 4, "apt install mahimahi"),
    ],
)
def test_wrong_arguments(shell: Shell, trace: Path, words: list[str], status: int, says: str) -> None:
    line = [str(trace) if word == "TRACE" else word for word in words]
    done = shell(*line, env={**os.environ, "PATH": "/nowhere"})
    assert done.returncode == status
    assert says in done.stderr and done.stderr.startswith("error: "), done.stderr


def test_a_bad_trace_is_named_with_its_line(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("5\n3\n")
    done = shell("link", "bad", "bad", "true")
    assert done.returncode == 3 and "bad:2: 3 ms comes after 5 ms" in done.stderr


def test_kill_9_leaves_nothing(shell: Shell, program: str) -> None:
    script = "sleep 1001 & (setsid sleep 1002 &); echo ready; exec sleep 1003"
    # An inner shell that is not on the outer one's line has processes of its own.
    line = [program, "delay", "5", "sh", "-c", 'exec "$@"', "sh", program, "delay", "5", "sh", "-c", script]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    mine = descendants(process.pid)
    assert len(mine) >= 6 and f"delay-{process.pid}" in interfaces()
    process.kill()
    process.wait()
    assert eventually(lambda: not any(map(lives, mine))), [Path(f"/proc/{p}/cmdline") for p in mine if lives(p)]
    assert eventually(lambda: f"delay-{process.pid}" not in interfaces())


def descendants(pid: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except FileNotFoundError:
            continue
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_command_gets_signals(shell: Shell, program: str, number: signal.Signals) -> None:
    script = f"trap 'echo got; exit 5' {number.name[3:]}; echo ready; while :; do sleep 0.01; done"
    process = subprocess.Popen(
        [program, "delay", "5", "sh", "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        # Under nohup a shell could not trap SIGHUP, which it would find ignored.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.stdout.read() == "got\n"
    assert process.wait(10) == 5
    assert f"delay-{process.pid}" not in interfaces()


def test_ctrl_c_is_the_commands(shell: Shell, program: str) -> None:
    script = "trap 'echo got; exit 5' INT; echo ready; while :; do sleep 0.01; done"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(program, [program, "delay", "5", "sh", "-c", script])
    output = b""
    while b"ready" not in output:
        output += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while True:
        try:
            more = os.read(terminal, 1000)
        except OSError:  # the terminal is gone
            break
        if not more:
            break
        output += more
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    assert output.count(b"got") == 1


def test_a_full_disk_costs_the_log_alone(shell: Shell, trace: Path, probe: list[str]) -> None:
    done = shell("link", trace, trace, "--uplink-log=/dev/full", "--", *probe)
    assert done.returncode == 1
    assert float(done.stdout) > 0
    assert done.stderr.count("cannot write the log /dev/full") == 1


AS_NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups"
WITHOUT_RIGHTS = "setpriv --bounding-set -all --inh-caps -all --no-new-privs"


@pytest.mark.parametrize(
    ("apart", "before", "user", "says"),
    [
        ("--mount", "mount -t tmpfs none /dev/net", AS_NOBODY, "cannot open /dev/net/tun (No such file"),
        (
            "--mount",
            "mount -t tmpfs none /dev/net; mknod -m 600 /dev/net/tun c 10 200",
            AS_NOBODY,
            "cannot open /dev/net/tun (Permission denied",
        ),
        (
            "--user --map-root-user",
            "echo 0 >/proc/sys/user/max_user_namespaces",
            WITHOUT_RIGHTS,
            "creating a network namespace was refused",
        ),
    ],
    ids=["no TUN", "TUN is root's", "no user namespaces"],
)
def test_a_machine_that_does_not_allow_it_is_told_what_to_change(
    shell: Shell, program: str, apart: str, before: str, user: str, says: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        script = f"{before}; exec {user} {shutil.copy(program, folder)} delay 1 true"
        line = ["unshare", *apart.split(), "sh", "-c", script]  # what it changes goes with the test
        done = subprocess.run(line, capture_output=True, text=True, timeout=30)
    assert done.returncode == 4, done.stderr
    assert done.stderr.startswith("error: ") and says in done.stderr, done.stderr


def test_a_far_command_ends_with_the_shell(shell: Shell) -> None:
    marker = "sleep 1004.25"
    assert shell("delay", 1, f"--far-command={marker}", "true").returncode == 0
    lines = (Path(entry, "cmdline") for entry in Path("/proc").glob("[0-9]*"))
    assert not any(marker.replace(" ", "\0").encode() in line.read_bytes() for line in lines if line.exists())


def test_without_the_program_it_says_what_to_do(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "ccarena.cli", "delay", "1", "true"]
    environment = {**os.environ, "CCARENA_BIN_DIR": str(tmp_path)}
    done = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert done.returncode != 0
    assert "make setup" in done.stderr


@pytest.mark.parametrize("route", ["100.64.0.0/10", "100.64.0.0/10 table 52", "100.0.0.0/8"])
def test_a_network_that_others_use_is_not_taken_from_them(shell: Shell, program: str, route: str) -> None:
    lines = f'ip link set lo up; ip route add {route} dev lo; exec "$@"'
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", lines, "sh", program, "delay", "1", "true"], capture_output=True, text=True
    )
    assert done.returncode == 4, done.stderr
    assert f"this machine routes {route.split()[0]} elsewhere" in done.stderr and "unshare --net" in done.stderr


def test_a_part_of_the_network_that_others_use_is_left_out(shell: Shell, program: str) -> None:
    lines = 'ip link set lo up; ip route add 100.64.5.0/24 dev lo table 52; exec "$@"'
    print_base = ["sh", "-c", "echo $MAHIMAHI_BASE"]
    line = ["unshare", "--net", "sh", "-c", lines, "sh", program, "delay", "1", *print_base]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.stdout == "100.64.128.1\n", done.stderr


def members(namespace: int) -> list[int]:
    """The processes in the network namespace with this inode."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.stat(entry / "ns/net").st_ino == namespace:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_no_translation_stays_when_everything_is_killed_at_once(shell: Shell, program: str) -> None:
    if shutil.which("nft") is None:
        pytest.skip("SKIPPED, address translation is not tested: no nft (apt install nftables)")
    # A process that is not killed keeps the namespace, and with it what was left in it.
    with subprocess.Popen(["unshare", "--net", "sleep", "1007.5"]) as keeper:
        try:
            own = os.stat("/proc/self/ns/net").st_ino
            there = Path(f"/proc/{keeper.pid}/ns/net")
            assert eventually(lambda: os.stat(there).st_ino != own)
            inside = ["nsenter", "--net", "--target", str(keeper.pid)]

            def tables() -> str:
                return subprocess.run([*inside, "nft", "list", "tables"], capture_output=True, text=True).stdout

            lines = 'ip link set lo up; echo 1 >/proc/sys/net/ipv4/ip_forward; exec "$@"'
            line = [*inside, "sh", "-c", lines, "sh", program, "delay", "1", "sleep", "1007.25"]
            with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
                assert eventually(lambda: "ccarena_" in tables())
                for pid in members(os.stat(there).st_ino):
                    if pid != keeper.pid:
                        os.kill(pid, signal.SIGKILL)
                running.wait(10)
            assert eventually(lambda: "ccarena_" not in tables()), tables()
        finally:
            keeper.kill()
