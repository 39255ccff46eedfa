"""What is installed: the lock, the sizes that are said, the extras that messages name, and what the sources hold."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ccarena import extras

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
PYTHONS = tuple(f"3.{minor}" for minor in range(10, 16))


def used_by_make() -> set[str]:
    """Extras that targets of the Makefile install, those of EXTRAS aside."""
    return {name for names in re.findall(r"\$\(call WITH,([a-z -]+)", MAKEFILE) for name in names.split()}


def required(names: Iterable[str]) -> Iterator[Requirement]:
    """Requirements of the package with these extras; an extra that names others brings theirs."""
    for text in (*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]):
        yield Requirement(text)
    for name in names:
        for requirement in map(Requirement, EXTRAS[name]):
            yield from required(requirement.extras) if requirement.name == "ccarena" else [requirement]


def locked() -> list[Requirement]:
    return [Requirement(line) for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines()]


def versions(python: str) -> dict[str, str]:
    """The locked version of each package for Linux and a version of Python."""
    where = {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    pinned = [entry for entry in locked() if entry.marker is None or entry.marker.evaluate(where)]
    assert len({entry.name for entry in pinned}) == len(pinned), "one version of each package"
    return {canonicalize_name(entry.name): str(entry.specifier).removeprefix("==") for entry in pinned}


def test_the_lock_holds_names_versions_and_markers_alone() -> None:
    for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines():
        assert re.fullmatch(r"[a-z0-9-]+==[a-z0-9.]+( ; [a-zA-Z0-9_.'<>=!()* -]+)?", line), line


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_covers_what_make_installs_within_the_bounds_of_pyproject(python: str) -> None:
    pinned = versions(python)
    used = used_by_make()
    assert {"train", "test", "check", "docs", "wheel", "test-cluster"} <= used
    for requirement in required(used):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked: make lock"
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement} is not {version}: make lock"


def closure(names: Iterable[str]) -> dict[str, importlib.metadata.Distribution]:
    """Everything that the package with these extras needs and that is installed here."""
    found: dict[str, importlib.metadata.Distribution] = {}
    ahead = [(canonicalize_name(r.name), frozenset(r.extras)) for r in required(names)]
    seen = set()
    while ahead:
        if (wanted := ahead.pop()) in seen:
            continue
        seen.add(wanted)
        name, chosen = wanted
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        found[name] = distribution
        for requirement in map(Requirement, distribution.requires or []):
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in ("", *chosen)):
                ahead.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return found


def test_the_lock_covers_what_these_need_in_turn() -> None:
    pinned = versions(".".join(map(str, sys.version_info[:2])))
    # An environment that was made before the lock was rewritten has other versions, which may need other packages.
    for name, distribution in closure(used_by_make()).items():
        if distribution.version.partition("+")[0] == pinned.get(name):
            for requirement in map(Requirement, distribution.requires or []):
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    assert canonicalize_name(requirement.name) in pinned, f"{name} needs {requirement}: make lock"


def disk_mb(distributions: Iterable[importlib.metadata.Distribution]) -> float:
    """Size of these packages without bytecode, which not every environment has."""
    files = (file for each in distributions for file in each.files or () if not str(file).endswith(".pyc"))
    return sum(file.size or 0 for file in files) / 1e6


def said_mb(extra: str) -> tuple[float, float]:
    """MB of download and of disk that `make` names for an extra, for the build of PyTorch that is installed."""
    cpu = "+cpu" in importlib.metadata.version("torch")
    words = ["sh", ROOT / "ccarena" / "prerequisites.sh", "extra", extra]
    environment = {**os.environ, "PIP_ARGS": "--torch-backend " + ("cpu" if cpu else "cuda")}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    numbers = re.search(r"up to (\d+) MB to download, (\d+) MB of disk", done.stderr)
    assert numbers is not None, done.stderr
    return float(numbers[1]), float(numbers[2])


@pytest.mark.parametrize(
    ("extra", "besides"),
    [("train", ()), ("test", ("train", "frames")), ("check", ()), ("docs", ()), ("ray", ("train",))],
)
def test_the_sizes_that_make_says_are_those_of_this_environment(extra: str, besides: tuple[str, ...]) -> None:
    before = closure(besides) if besides else {}
    if extra in ("check", "docs"):
        before = closure(())
    added = disk_mb(each for name, each in closure([*besides, extra]).items() if name not in before)
    if not added:
        pytest.skip(f"{extra.upper()} IS NOT INSTALLED: the size that make says is not checked (EXTRAS={extra})")
    download, disk = said_mb(extra)
    assert 0.6 * disk <= added <= 1.05 * disk, f"{extra} takes {added:.0f} MB without bytecode: prerequisites.sh"
    assert download < disk


def test_the_installation_page_names_the_same_sizes_and_extras() -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    table = dict(
        re.findall(r"^  +([a-z-]+)\) echo (\d+ \d+) ;;", (ROOT / "ccarena/prerequisites.sh").read_text(), re.M)
    )
    shown = {
        name: f"{download} {disk}"
        for name, download, disk in re.findall(r"<!-- (\S+) --> \| (\d+) MB \| (\d+) MB", page)
    }
    assert shown == table
    assert EXTRAS.keys() <= set(re.findall(r"`([a-z-]+)`", page))


def test_extras_in_messages_exist() -> None:
    named = {
        (path.name, extra)
        for path in (ROOT / "ccarena").rglob("*.py")
        for extra in re.findall(r'(?:how_to_add\(|for_extra\(\s*"[^"]+", )["\']([a-z-]+)["\']', path.read_text("utf-8"))
    }
    assert {extra for _, extra in named} >= {"train", "ray", "frames", "onnx", "remote"}
    assert {extra for _, extra in named} <= EXTRAS.keys()


def test_a_checkout_adds_an_extra_by_make_in_its_own_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))
    monkeypatch.chdir(ROOT)
    assert (extras.how_to_add("ray"), extras.how_to_add()) == ("make setup EXTRAS=ray", "make setup")
    monkeypatch.chdir(tmp_path)
    assert extras.how_to_add("ray") == f"make -C {ROOT} setup EXTRAS=ray"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert extras.how_to_add("ray") == f'pip install -e "{ROOT}[ray]"'


def test_a_wheel_adds_an_extra_from_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tmp_path / "my wheels" / "ccarena-9-cp310-abi3-linux_x86_64.whl"
    installed = tmp_path / "ccarena-9.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: ccarena\nVersion: 9\n")
    (installed / "direct_url.json").write_text(json.dumps({"url": wheel.as_uri(), "archive_info": {}}))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(extras, "CHECKOUT", tmp_path)
    assert extras.how_to_add("train") == 'pip install "WHEEL[train]"', "the file is gone"
    wheel.parent.mkdir()
    wheel.touch()
    assert extras.how_to_add("train") == f'pip install "{wheel}[train]"'


def test_a_long_build_says_how_long_it_has_taken() -> None:
    """Whatever an old target folder holds."""
    recipe = re.search(r"^SAY_THAT_IT_BUILDS = (.*?[^\\])$", MAKEFILE, re.DOTALL | re.MULTILINE)
    assert recipe is not None
    script = recipe[1].replace("\\\n", " ").replace("$$", "$").replace("sleep 20", "sleep 0.7")
    done = subprocess.run(["sh", "-c", f"{script}; sleep 2.5"], capture_output=True, text=True, check=True)
    seconds = [int(text) for text in re.findall(r"^  still building after (\d+) s$", done.stdout, re.MULTILINE)]
    assert seconds == sorted(seconds) and seconds[-1] > seconds[0] and not done.stderr


def test_the_sources_are_packed_whole(tmp_path: Path) -> None:
    words = ["git", "ls-files", "-z", "ccarena*", "crates", ".cargo", "Cargo.*", "pyproject.toml", "setup.py"]
    tracked = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    wanted = {name for name in tracked if name}
    words = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True)
    lines = (tmp_path / "ccarena.egg-info" / "SOURCES.txt").read_text("utf-8").splitlines()
    listed = {os.path.normpath(line) for line in lines}  # `package-dir` leads them by "./"
    assert wanted - set(listed) == set(), "MANIFEST.in leaves them out"
    assert sum((ROOT / name).stat().st_size for name in listed if (ROOT / name).is_file()) < 20e6


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Runs `prerequisites.sh extra train` where there is a GPU or none, and returns what it prints and what it says."""
    nvidia_smi = tmp_path / "nvidia-smi"

    def run(gpu: bool, **variables: str) -> tuple[str, str]:
        nvidia_smi.write_text(f"#!/bin/sh\nexit {0 if gpu else 1}\n")
        nvidia_smi.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if name != "PIP_ARGS"}
        environment = {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": sys.executable, **variables}
        words = ["sh", ROOT / "ccarena" / "prerequisites.sh", "extra", "train"]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip(), done.stderr

    return run


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PYTORCH HAS CUDA ON LINUX ALONE")
def test_pytorch_comes_without_cuda_unless_there_is_a_gpu(
    options: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "index.html").touch()
    answers, silent = (
        {"PYTORCH_INDEX": (tmp_path / "index.html").as_uri()},
        {"PYTORCH_INDEX": (tmp_path / "nowhere").as_uri()},
    )
    printed, said = options(gpu=False, **answers)
    assert printed == "--torch-backend cpu" and "with PyTorch without CUDA" in said
    printed, said = options(gpu=True, **answers)
    assert printed == "" and "with PyTorch's CUDA build\n" in said
    printed, said = options(gpu=False, **silent)
    assert printed == "" and "PyTorch's index, which alone has the build without CUDA, does not answer" in said
    printed, said = options(gpu=True, **answers, PIP_ARGS="--torch-backend cpu")
    assert printed == "" and "with PyTorch without CUDA" in said, "uv takes an option once"
    (tmp_path / ".venv/lib/python3.12/site-packages/torch-2.9.0+cpu.dist-info").mkdir(parents=True)
    assert options(gpu=True, **silent)[0] == "--torch-backend cpu", "an environment keeps its build"
