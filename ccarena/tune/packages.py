"""Check for the packages that a sweep needs, here and on the cluster's machines, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ccarena.errors import CcarenaError, ConfigError, MissingDependencyError
from ccarena.executors.ray import module, reason_of
from ccarena.runs.remote_folder import check_packages

__all__ = ["check_here", "check_machines"]

EVERYWHERE: Mapping[str, tuple[str, str]] = {"torch": ("torch", "train"), "ray.tune": ("ray[tune]", "tune")}
"""Modules that every training machine needs, with their packages and the extras that bring them."""
_SEARCHES: Mapping[str, Mapping[str, tuple[str, str]]] = {"optuna": {"optuna": ("optuna", "optuna")}}
"""Modules that only the machine which draws settings needs, by search."""
_ANSWERS_WITHIN_S = 120.0
"""Longest time in which a busy machine imports the modules, s."""


def check_here(search: str) -> None:
    """Raises MissingDependencyError for a package that this machine lacks."""
    module("ccarena tune")
    for name, (package, extra) in {**EVERYWHERE, **_SEARCHES.get(search, {})}.items():
        if _lacking([name]):
            purpose = f"--search {search}" if name == search else "ccarena tune"
            raise MissingDependencyError.for_extra(package, extra, purpose)


def check_machines(needed: Mapping[str, tuple[str, str]] = EVERYWHERE, url: str | None = None) -> None:
    """Raises MissingDependencyError for a package that a machine of the cluster lacks, naming the machine.

    Each machine needs the modules `needed`, and those with which fsspec reads `url`. A machine without cores runs no
    trial and is not checked. Raises ConfigError if a machine does not answer.
    """
    ray = module("ccarena tune")
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asked: dict[str, Any] = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0, max_retries=1, scheduling_strategy=there)(_look)
            asked[node["NodeManagerAddress"]] = task.remote(list(needed), url)
    for address, answer in asked.items():
        try:
            lacking, refused = ray.get(answer, timeout=_ANSWERS_WITHIN_S)
        except ray.exceptions.RayError as error:
            raise ConfigError(
                f"the machine {address} of the cluster cannot run ccarena: {reason_of(error)}; install the same "
                "version there, with the extra tune, or take the machine out"
            ) from error
        for name in lacking:
            package, extra = needed[name]
            raise MissingDependencyError.for_extra(package, extra, f"ccarena tune, on the machine {address},")
        if refused is not None:
            raise MissingDependencyError(f"on the machine {address}: {refused}")


def _look(names: list[str], url: str | None) -> tuple[list[str], str | None]:
    """Returns the modules that are missing on the machine that runs this, and the error of reading `url` there."""
    lacking = _lacking(names)
    try:
        if url is not None:
            check_packages(url)
    except CcarenaError as error:
        return lacking, str(error)
    return lacking, None


def _lacking(names: list[str]) -> list[str]:
    """Returns the modules that cannot be imported on the machine that runs this."""
    lacking = []
    for name in names:
        try:
            import_module(name)
        except ImportError:
            lacking.append(name)
    return lacking
