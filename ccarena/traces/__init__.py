"""Capacity of links over time: recorded and synthetic traces, and their statistics.

A trace is a `uint32` array of shape `(opportunities,)`: the milliseconds at which a packet of 1500 bytes may leave, in
mahimahi's format. `load` reads one by name or path, `generate` draws one from a preset, `describe` gives statistics.
"""

from ccarena.traces.files import available, find, in_folder, load, parse, save, shared
from ccarena.traces.presets import all_presets, generate
from ccarena.traces.stats import TraceStats, describe, rates_mbps

__all__ = [
    "TraceStats",
    "all_presets",
    "available",
    "describe",
    "find",
    "generate",
    "in_folder",
    "load",
    "parse",
    "rates_mbps",
    "save",
    "shared",
]
