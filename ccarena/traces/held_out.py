"""The recorded traces that policies are evaluated on. Training does not use them unless a configuration names them."""

HELD_OUT = (
    "Verizon-LTE-short.down",
    "Verizon-LTE-short.up",
    "ATT-LTE-driving.down",
    "ATT-LTE-driving.up",
    "TMobile-LTE-driving.down",
    "Verizon-EVDO-driving.down",
    "Verizon-EVDO-driving.up",
)
"""Mahimahi's set, by name."""
