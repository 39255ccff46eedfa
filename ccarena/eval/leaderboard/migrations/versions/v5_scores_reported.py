"""Fifth version: scores beside the first one, and results that others report."""

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"

POWERS = {"score_throughput": (1.0, 0.25), "score_delay": (0.25, 1.0)}
"""Exponents of utilisation, and of base RTT over mean RTT; their product is the first score."""


def upgrade() -> None:
    """Adds the columns and the table, and computes the scores of runs alone; rankings are made anew by `rank`."""
    connection = op.get_bind()
    for table in ("runs", "means"):
        there = {column["name"] for column in sa.inspect(connection).get_columns(table)}
        for name in (*POWERS, "score_sharing"):
            if name not in there:
                op.add_column(table, sa.Column(name, sa.Float))
    op.create_table(
        "reported",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(32), nullable=False, unique=True),
        sa.Column("link", sa.Text, nullable=False),
        sa.Column("entrant", sa.Text, nullable=False),
        sa.Column("throughput_mbps", sa.Float, nullable=False),
        sa.Column("delay_ms", sa.Float, nullable=False),
        sa.Column("seed", sa.Integer),
        sa.Column("source", sa.Text, nullable=False),
    )
    op.execute("DELETE FROM notes WHERE name LIKE 'ranking: %'")
    _fill(connection)


def _fill(connection: sa.Connection) -> None:
    runs = sa.table("runs", *map(sa.column, ("id", "place", "opponent", "score", "utilisation", *POWERS)))
    runs.append_column(sa.column("throughput_mbps"))
    runs.append_column(sa.column("capacity_mbps"))
    places = sa.table("places", sa.column("id"), sa.column("moves"))
    asked = (
        sa.select(
            runs.c.id, runs.c.score, runs.c.utilisation, runs.c.throughput_mbps, runs.c.capacity_mbps, places.c.moves
        )
        .join(places, places.c.id == runs.c.place)
        .where(runs.c.opponent.is_(None), runs.c.score.is_not(None), runs.c.score_delay.is_(None))
    )
    found = []
    for number, score, utilisation, throughput, capacity, moves in connection.execute(asked).all():
        # Beside others in a scenario, the score is of the flow's own part of the capacity.
        used = (throughput or 0.0) / capacity if moves == "scenario" and capacity else utilisation or 0.0
        delay = score / used if used > 0 else 0.0
        found.append({"run": number, **{name: used**a * delay**b for name, (a, b) in POWERS.items()}})
    if not found:
        return
    change = runs.update().where(runs.c.id == sa.bindparam("run"))
    connection.execute(change.values({name: sa.bindparam(name) for name in POWERS}), found)
    for name in POWERS:
        op.execute(
            f"UPDATE means SET {name} = (SELECT AVG({name}) FROM runs WHERE runs.place = means.place AND "
            "runs.entrant = means.entrant AND runs.opponent IS NULL AND runs.backend = means.backend AND runs.valid) "
            "WHERE opponent = 0"
        )
