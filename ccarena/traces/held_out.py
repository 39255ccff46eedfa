"""The recorded traces that policies are judged on, and that training therefore leaves alone unless it is told to."""

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
