"""Warnings of observations outside of the range that a policy saw in training."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["NOTABLE", "OUTSIDE", "outside_notes"]

OUTSIDE = "observations_outside"
"""Key in a flow's result: the share of its policy's decisions on such observations; None if it is unknown."""
NOTABLE = 0.05
"""Share from which a reader is warned."""


def outside_notes(flows: Iterable[tuple[str, float | None]]) -> list[str]:
    """Returns a warning for each label whose mean share is notable, from (label, share) of each run."""
    shares: dict[str, list[float]] = {}
    for label, share in flows:
        if share is not None:
            shares.setdefault(label, []).append(float(share))
    means = {label: float(np.mean(each)) for label, each in shares.items()}
    return [
        f"{label}: {mean:.0%} of the policy's decisions rest on observations outside of the range that it saw in "
        "training; train it on links like these, or do not trust it here"
        for label, mean in means.items()
        if mean >= NOTABLE
    ]
