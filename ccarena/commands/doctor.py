"""Command `ccarena doctor`: capabilities of this machine, and how to get what is missing."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ccarena.controllers.build import tools
from ccarena.core import programs
from ccarena.core.machine import is_linux, lines_of, usable_cores
from ccarena.core.terminal import Progress, print_table, progress_bar
from ccarena.errors import CcarenaError, MachineError, MissingDependencyError
from ccarena.extras import how_to_add
from ccarena.pages.states import STATES, state_of
from ccarena.traces.files import available, search_path

State = Literal["ok", "limited", "missing"]

# The smallest simulation that exercises link, transport and controller.
TINY_SCENARIO = {
    "version": 1,
    "duration_s": 1,
    "seed": 1,
    "links": [
        {
            "name": "bottleneck",
            "service": {"type": "constant", "rate_mbps": 10},
            "queue": {"type": "droptail", "packets": 50},
            "delay_ms": 10,
        }
    ],
    "flows": [{"scheme": "cubic"}],
}
DEADLINE_S = 4.0
"""Longest time of a check, s; a broken or slow machine would otherwise block the command."""
COLUMNS = 80
RATES_MBPS = (50, 100, 200, 500, 1000, 2500, 5000)
"""Rates that `--link-speed` tries on the emulated link, one after the other; larger ones are refused."""


@dataclass(frozen=True)
class Finding:
    """Line of the doctor's output."""

    capability: str
    state: State
    found: str
    """Version or fault that was found."""
    advice: str = ""
    """Instruction to get what is missing; empty if nothing is."""


def add_parser(subparsers: Any, **kwargs: Any) -> None:
    """Declares the command."""
    parser = subparsers.add_parser("doctor", **kwargs)
    parser.add_argument(
        "--link-speed",
        action="store_true",
        help="also try, as root and in a minute or two, up to which rate the emulated link keeps its schedule here",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as a JSON list")


def run(args: argparse.Namespace) -> int:
    """Prints the findings; returns 0 if the simulator works, else 1."""
    findings = examine()
    if args.link_speed:
        with progress_bar("link speed", "rates") as progress:
            findings.append(link_speed(RATES_MBPS, progress))
    if args.json:
        print(json.dumps([asdict(f) for f in findings], indent=2))
    else:
        _print(findings)
    return 0 if findings[0].state == "ok" else 1


def examine() -> list[Finding]:
    """Returns all findings, the simulator first. Nothing on the machine is changed or loaded into its kernel.

    The checks run side by side; the finding of a check that takes longer than `DEADLINE_S` is "unknown".
    """
    found: dict[str, Finding] = {}

    def run(name: str) -> None:
        found[name] = CHECKS[name]()

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in CHECKS]
    for thread in threads:
        thread.start()
    end_s = time.monotonic() + DEADLINE_S
    for thread in threads:
        thread.join(max(0.0, end_s - time.monotonic()))
    late = f"not known after {DEADLINE_S:g} s"
    return [found.get(name) or Finding(name, "limited", late, "try again on a quieter machine") for name in CHECKS]


def simulator() -> Finding:
    """Checks that the native extension loads and simulates a second of one flow."""
    rebuild = f"build it: {how_to_add()} (needs a Rust toolchain from https://rustup.rs and a C compiler)"
    try:
        core = importlib.import_module("ccarena._core")
    except ImportError as error:
        return Finding("simulator", "missing", f"the native extension ccarena._core does not load: {error}", rebuild)
    try:
        delivered_bytes = core.simulate(json.dumps(TINY_SCENARIO))["flows"][0]["delivered_bytes"]
    except Exception as error:  # whatever it is, it is what the user wants to know
        return Finding("simulator", "missing", f"a tiny simulation fails: {type(error).__name__}: {error}", rebuild)
    return Finding("simulator", "ok", f"a tiny simulation delivered {delivered_bytes / 1e6:.2f} MB")


def training() -> Finding:
    """Returns versions of the training stack."""
    packages = ["torch", "gymnasium", "stable-baselines3", "pettingzoo", "tensorboard"]
    found = {name: version for name in packages if (version := _version(name))}
    lacking = [name for name in packages if name not in found]
    state: State = "ok" if not lacking else "limited" if "torch" in found and "gymnasium" in found else "missing"
    text = ", ".join(f"{name} {version}" for name, version in found.items()) or "none of its packages"
    if lacking:
        return Finding("training", state, f"{text}; lacks {', '.join(lacking)}", how_to_add("train"))
    if (packages_at := _compiled_anew("torch")) is not None:
        slow = f"{text}; torch has no bytecode, and processes may not write it: each compiles it anew, for seconds"
        return Finding("training", "limited", slow, f"once: python -m compileall -q -j0 {packages_at}")
    return Finding("training", state, text)


def _compiled_anew(package: str) -> Path | None:
    """Returns the package's folder, if every process that imports it has to compile it again."""
    try:
        found = importlib.util.find_spec(package)
    except ValueError:
        return None
    if found is None or not found.origin or not found.cached or Path(found.cached).exists():
        return None
    folder = Path(found.origin).parent
    return folder.parent if sys.dont_write_bytecode or not os.access(folder, os.W_OK) else None


def ray() -> Finding:
    """Checks that `--executor ray` works."""
    if version := _version("ray"):
        if _version("rfc3987-syntax"):
            # jsonschema, which Ray imports, takes it where it finds it, and it makes its parser when it is imported.
            slow = f"ray {version}; rfc3987-syntax (of Jupyter's server) delays every process of Ray by seconds"
            return Finding("Ray", "limited", slow, "pip uninstall rfc3987-syntax, or an environment without Jupyter")
        return Finding("Ray", "ok", f"ray {version}")
    return Finding("Ray", "missing", "not installed; training runs with --executor local", how_to_add("ray"))


def gpu() -> Finding:
    """Checks that torch can use a GPU, from the driver and torch's version: importing torch takes seconds."""
    if (version := _version("torch")) is None:
        return Finding("GPU", "missing", "torch is not installed", how_to_add("train"))
    names = _gpus()
    if not names:
        return Finding("GPU", "missing", "no NVIDIA driver answers; ACCT needs no GPU", "a CUDA device and its driver")
    if "+cpu" in version:
        return Finding(
            "GPU", "limited", f"{', '.join(names)}; torch {version} has no CUDA", "pip install --force-reinstall torch"
        )
    return Finding("GPU", "ok", f"{', '.join(names)}; small networks are still fastest on the CPU")


def _gpus() -> list[str]:
    """Returns names of the GPUs that NVIDIA's driver knows."""
    try:
        words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in said.splitlines() if line.strip()]


def kernel_bridge() -> Finding:
    """Checks the requirements of congestion controls on real TCP sockets, as `ccarena-kernel` reports them without
    loading any.
    """
    try:
        program = programs.find(programs.KERNEL_BRIDGE)
        said = subprocess.run([program, "check"], capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout
        problems = [str(check["problem"]) for check in json.loads(said) if not check["ok"]]
    except MachineError as error:
        return _lacking("kernel bridge", "", [_parted(str(error))])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        return Finding(
            "kernel bridge", "missing", f"ccarena-kernel fails: {error}", "delete it, and `make setup` builds it anew"
        )
    found = f"Linux {platform.release()}, BTF, cgroup 2, rights; {program}"
    return _lacking("kernel bridge", found, [_parted(problem) for problem in problems] + _no_tun())


def emulator() -> Finding:
    """Checks the requirements of the real-time link emulator: its program, TUN devices and network namespaces."""
    lacking = []
    try:
        program = str(programs.find(programs.EMULATOR))
    except MachineError as error:
        program = ""
        lacking.append(_parted(str(error)))
        if not is_linux():
            return _lacking("emulator", "", lacking)
    lacking += _no_tun()
    if not Path("/proc/self/ns/net").exists():
        lacking.append(("no network namespaces", "a Linux kernel with CONFIG_NET_NS=y"))
    if not _capable("CAP_NET_ADMIN") and not _user_namespaces():
        lacking.append(("neither CAP_NET_ADMIN nor user namespaces", "root, or sysctl user.max_user_namespaces=10000"))
    rights = "root" if _capable("CAP_NET_ADMIN") else "user namespaces"
    return _lacking("emulator", f"TUN, network namespaces, {rights}; {program}", lacking)


def quic() -> Finding:
    """Checks that the program of `--backend quic` runs."""
    try:
        program = programs.find(programs.QUIC)
        subprocess.run([program, "--help"], capture_output=True, timeout=DEADLINE_S, check=True)
    except MachineError as error:
        return _lacking("QUIC", "", [_parted(str(error))])
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("QUIC", "missing", f"ccarena-quic fails: {error}", "delete it, and `make setup` builds it anew")
    return Finding("QUIC", "ok", f"{program}; links are the emulator's")


def stacks() -> Finding:
    """Returns the stacks of others that can run here."""
    from ccarena.scenarios.stacks import shipped_stacks

    lacks = {name: stack.lacks for name, stack in shipped_stacks().items()}
    here = [name for name, lack in lacks.items() if not lack]
    found = f"{len(here)} of {len(lacks)} can run{': ' if here else ''}{', '.join(here)}"
    if len(here) == len(lacks):
        return Finding("stacks", "ok", found)
    advice = "`ccarena stacks get NAME`, or all; only entrants `stack:NAME` need them"
    return Finding("stacks", "limited" if here else "missing", found, advice)


def browser_simulator() -> Finding:
    """Checks that pages can run scenarios in a browser: that the simulator was built for them."""
    from ccarena.play.page import assets

    try:
        return Finding("run in pages", "ok", f"the simulator for web pages is in {assets()}")
    except MissingDependencyError as error:
        return Finding("run in pages", "missing", *_parted(str(error)))


def link_speed(rates_mbps: Sequence[int], progress: Progress | None = None) -> Finding:
    """Returns the highest of the rising rates at which the kernel's CUBIC runs over a valid emulated link on this
    machine.
    """
    from ccarena.scenarios.backends import ATTEMPTS, KERNEL, execute

    title, fastest = "emulated link", 0
    for done, rate in enumerate(rates_mbps):
        if progress is not None:
            progress(done, len(rates_mbps))
        try:
            runs = (execute(_link_of(rate), KERNEL)["machine"] for _ in range(ATTEMPTS))
            off = {} if any((machine := each)["valid"] for each in runs) else machine
        except CcarenaError as error:
            found, advice = _parted(str(error))
            return Finding(title, "missing", found, advice)
        if off:
            lost, late = off["emulator_overrun_packets"], off["lateness"]["p99_ms"]
            why = (
                f"{lost} packets were lost before the link"
                if lost
                else f"1 % of packets was {late:.2f} ms late or more"
            )
            found = f"valid up to {fastest} Mbit/s; at {rate} Mbit/s {why}"
            return Finding(title, "ok" if fastest else "limited", found, "more cores, or an idle machine")
        fastest = rate
    return Finding(title, "ok", f"valid up to {fastest} Mbit/s, the fastest that was tried")


def _link_of(rate_mbps: int) -> dict[str, Any]:
    """Returns a scenario with one flow of the kernel's CUBIC for three seconds."""
    link = {
        "service": {"type": "constant", "rate_mbps": rate_mbps},
        "queue": {"type": "droptail", "bdp": 1},
        "delay_ms": 5,
    }
    return {"duration_s": 3, "links": [link], "flows": [{"scheme": "cubic"}]}


def webassembly() -> Finding:
    """Checks the compilers that `ccarena build` needs. Modules run without any."""
    lacks = tools()
    found = "; ".join(f"{language}: {lack.partition('; ')[0] if lack else 'yes'}" for language, lack in lacks.items())
    advice = "; ".join(lack.partition("; ")[2] for lack in lacks.values() if lack)
    state: State = "limited" if not all(lacks.values()) else "missing"
    return Finding("ccarena build", state if advice else "ok", found, advice)


def mahimahi() -> Finding:
    """Checks that mahimahi's shells are on PATH."""
    if path := shutil.which("mm-link"):
        return Finding("mahimahi", "ok", path)
    advice = "build https://github.com/ravinet/mahimahi; nothing here needs it"
    return Finding("mahimahi", "missing", "mm-link is not on PATH", advice)


def public_traces() -> Finding:
    """Returns recorded traces found in the trace folders."""
    count, looked = len(available()), ", ".join(str(folder) for folder in search_path())
    if count:
        return Finding("public traces", "ok", f"{count} along {looked}")
    advice = "`ccarena traces fetch SET`, or set CCARENA_TRACE_DIR to a folder that has some; generated links need none"
    return Finding("public traces", "missing", f"none along {looked}", advice)


def memory_and_disk() -> Finding:
    """Returns free memory and disk space."""
    disk_gb = shutil.disk_usage(".").free / 1e9
    memory_gb = _available_memory_bytes() / 1e9
    low = [text for text, is_low in (("memory", 0 < memory_gb < 2), ("disk space", disk_gb < 1)) if is_low]
    memory = f"{memory_gb:.1f} GB of memory available, " if memory_gb else ""
    found = f"{memory}{disk_gb:.1f} GB of disk free in {Path.cwd()}"
    advice = f"{' and '.join(low)} may not suffice: training takes up to 2 GB of memory and 0.1 GB of disk"
    return Finding("memory, disk", "limited" if low else "ok", found, advice if low else "")


def cores() -> Finding:
    """Returns cores that this process may use, and the thread setting that small networks need."""
    setting = os.environ.get("OMP_NUM_THREADS")
    found = f"{usable_cores()} of {os.cpu_count()} cores usable; OMP_NUM_THREADS is {setting or 'not set'}"
    if setting == "1":
        return Finding("cores", "ok", found)
    advice = (
        "`ccarena train` sets OMP_NUM_THREADS=1 for itself; set it for scripts, which it makes several times faster"
    )
    return Finding("cores", "ok", found, advice)


def pictures() -> Finding:
    """Checks that plots can be written as images."""
    from ccarena.pages.browser import find_browser

    if browser := find_browser():
        return Finding("pictures", "ok", f"plots as .svg, .png and .pdf, drawn by {browser}")
    return Finding(
        "pictures",
        "limited",
        "plots as .html alone: no browser",
        "install Chromium (on Debian: apt install chromium), or name it in BROWSER_PATH",
    )


def _lacking(capability: str, found: str, lacking: list[tuple[str, str]]) -> Finding:
    """Returns `ok` with `found`, or `missing` with what is lacking and how to get it."""
    if not lacking:
        return Finding(capability, "ok", found)
    return Finding(capability, "missing", "; ".join(what for what, _ in lacking), "; ".join(how for _, how in lacking))


def _parted(problem: str) -> tuple[str, str]:
    """Splits a message into the fault and the instruction."""
    what, _, how = problem.splitlines()[0].partition("; ")
    return what, how or "`make setup`"


def _no_tun() -> list[tuple[str, str]]:
    if os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return []
    what = "may not open /dev/net/tun" if Path("/dev/net/tun").exists() else "no /dev/net/tun"
    return [(what, "modprobe tun, or a container with --device /dev/net/tun")]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


_CAPABILITY_BITS = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21, "CAP_BPF": 39}  # linux/capability.h


def _capable(name: str) -> bool:
    """Returns whether this process has capability `name`; CAP_SYS_ADMIN includes CAP_BPF (capabilities(7))."""
    for line in lines_of("/proc/self/status"):
        if line.startswith("CapEff:"):
            effective = int(line.split()[1], 16)
            names = [name, "CAP_SYS_ADMIN"] if name == "CAP_BPF" else [name]
            return any(effective >> _CAPABILITY_BITS[n] & 1 for n in names)
    return False


def _user_namespaces() -> bool:
    limit = lines_of("/proc/sys/user/max_user_namespaces")
    clone = lines_of("/proc/sys/kernel/unprivileged_userns_clone")  # Debian's switch; absent elsewhere
    return bool(limit) and int(limit[0]) > 0 and (not clone or clone[0].strip() == "1")


def _available_memory_bytes() -> int:
    """Returns the free memory; 0 if it is not known, as outside Linux."""
    for line in lines_of("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


CHECKS: dict[str, Callable[[], Finding]] = {
    "simulator": simulator,
    "training": training,
    "Ray": ray,
    "GPU": gpu,
    "kernel bridge": kernel_bridge,
    "emulator": emulator,
    "QUIC": quic,
    "stacks": stacks,
    "ccarena build": webassembly,
    "mahimahi": mahimahi,
    "pictures": pictures,
    "run in pages": browser_simulator,
    "public traces": public_traces,
    "memory, disk": memory_and_disk,
    "cores": cores,
}
"""Checks by the capability that each examines."""


def next_step(findings: Sequence[Finding]) -> str:
    """Returns the next step for the user: install what the simulator or training lacks, or start."""
    states = {finding.capability: finding for finding in findings}
    for name in ("simulator", "training"):
        if name in states and states[name].state == "missing":
            return f"next: {states[name].advice}"
    return "next: `ccarena train` trains a policy, `ccarena eval cubic bbr` compares schemes; all else is optional"


def _print(findings: list[Finding]) -> None:
    from rich.text import Text

    # As Text, because what stands in brackets would be read as markup.
    rows = [
        [
            f.capability,
            Text(f.state, STATES[state_of(f.state)].terminal),
            Text(f.found + (f"\nto do: {f.advice}" if f.advice else "")),
        ]
        for f in findings
    ]
    print_table("", ("capability", "state", "what was found, and what to do"), rows, left=3, most=COLUMNS)
    print(textwrap.fill(next_step(findings), COLUMNS))
