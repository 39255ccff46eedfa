"""Division of recorded traces into test, validation and training sets, and the mobile carrier of each recording.

- `HELD_OUT`: the test set, on which policies are evaluated.
- `VALIDATION`: the validation set, on which hyperparameters are chosen.
- All other recordings are free for training.

A preset that was fitted to a recording belongs to the set of that recording. By default, training draws from free
traces and presets only. A configuration that names others trains on them, too.
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
"""Tested recordings: mahimahi's set, by name."""
VALIDATION = ("trace-2767958-taxi1",)
"""Recordings for choosing hyperparameters: neither trained on nor tested."""
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
    """Returns the recording behind the trace or preset `name`: itself, or the recording that it was fitted to."""
    return ORIGINS.get(name, name)


def free(names: Iterable[str]) -> list[str]:
    """Returns those of the traces or presets `names` that training uses by default."""
    return [name for name in names if derives_from(name) not in (*HELD_OUT, *VALIDATION)]


def carrier_of(name: str) -> str:
    """Returns the carrier of a trace's or preset's link; empty if it is unknown."""
    origin = derives_from(name)
    return next((carrier for carrier, begins in CARRIERS.items() if origin.startswith(begins)), "")
