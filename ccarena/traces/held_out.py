"""Which recordings are tested, for choices of hyperparameters, or free for training, and whose links they are.

A synthetic preset that was fitted to a recording counts as that recording. Training uses neither a tested recording nor
one of the validation set, nor what derives from them, unless a configuration names it.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["CARRIERS", "HELD_OUT", "ORIGINS", "VALIDATION", "carrier_of", "derives_from", "free"]

HELD_OUT = (
    "Verizon-LTE-short.down",
    "Verizon-LTE-short.up",
    "ATT-LTE-driving.down",
    "ATT-LTE-driving.up",
    "TMobile-LTE-driving.down",
    "Verizon-EVDO-driving.down",
    "Verizon-EVDO-driving.up",
)
"""Tested: mahimahi's set, by name."""
VALIDATION = ("trace-2767958-taxi1",)
"""For choices of hyperparameters: neither trained on nor tested."""
ORIGINS = {
    "evdo-driving": "Verizon-EVDO-driving.down",
    "lte-bus": "trace-3114405-bus",
    "lte-driving": "Verizon-LTE-short.down",
    "lte-driving-att": "ATT-LTE-driving.down",
    "lte-driving-tmobile": "TMobile-LTE-driving.down",
    "lte-short-tmobile": "TMobile-LTE-short.down",
    "lte-stationary": "trace-2925703-home1",
    "lte-walking": "trace-3199718-timessquare",
    "umts-driving": "TMobile-UMTS-driving.down",
}
"""The recording whose published statistics a preset was fitted to (crates/ccarena-net/src/cellular/presets.rs)."""
CARRIERS = {"att": "ATT-", "tmobile": "TMobile-", "verizon": "Verizon-"}
"""Carriers by name, and how the names of their recordings begin."""


def derives_from(name: str) -> str:
    """The recording that `name`, a trace's or a preset's, stands for: itself, or what it was fitted to."""
    return ORIGINS.get(name, name)


def free(names: Iterable[str]) -> list[str]:
    """Those of `names`, of traces or presets, that training may use without being told to."""
    return [name for name in names if derives_from(name) not in (*HELD_OUT, *VALIDATION)]


def carrier_of(name: str) -> str:
    """Whose link a trace or a preset is of; empty if that is not known."""
    origin = derives_from(name)
    return next((carrier for carrier, begins in CARRIERS.items() if origin.startswith(begins)), "")
