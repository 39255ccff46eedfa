"""Sixth version: means of scores are geometric, and marks of rankings stand at arithmetic means of delays."""

from alembic import op

revision = "6"
down_revision = "5"

SCORES = ("score", "score_throughput", "score_delay", "score_sharing")
LEAST = 1e-4
"""Least score in a geometric mean."""


def upgrade() -> None:
    """Computes the means anew; rankings are made anew by `rank`."""
    op.execute("DELETE FROM notes WHERE name LIKE 'ranking: %'")
    for name in SCORES:
        op.execute(
            f"UPDATE means SET {name} = (SELECT EXP(AVG(LN(CASE WHEN {name} < {LEAST} THEN {LEAST} ELSE {name} END))) "
            "FROM runs WHERE runs.place = means.place AND runs.entrant = means.entrant AND "
            "COALESCE(runs.opponent, 0) = means.opponent AND runs.backend = means.backend AND runs.valid)"
        )
