"""Certificates: properties of a policy over boxes of observations, proved or refuted by branch and bound."""

__all__ = ["BOXES"]

BOXES = 20_000
"""Boxes of one property in one form, by default."""
