"""First version: places, entrants, runs with their series, and means of repetitions."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

FIGURES = (
    *("score", "throughput_mbps", "utilisation", "queueing_delay_mean_ms", "queueing_delay_p95_ms"),
    *("signal_delay_p95_ms", "self_inflicted_delay_ms", "power", "loss_share", "capacity_mbps"),
    *("share", "harm_throughput", "harm_delay", "jain_index"),
)


def upgrade() -> None:
    """Makes the first version."""
    op.create_table(
        "places",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(32), nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("trace", sa.Text, nullable=False, index=True),
        sa.Column("moves", sa.String(16), nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("trace_digest", sa.String(32), nullable=False),
        sa.Column("delay_ms", sa.Float, nullable=False),
        sa.Column("buffer_packets", sa.Integer, nullable=False),
        sa.Column("duration_s", sa.Float, nullable=False),
        sa.Column("uplink", sa.Boolean, nullable=False),
    )
    op.create_table(
        "entrants",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(32), nullable=False, unique=True),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("track", sa.String(32), nullable=False),
        sa.Column("policy_digest", sa.String(32), nullable=False),
        sa.Column("beside", sa.Text, nullable=False),
        sa.Column("trained_on", sa.Text, nullable=False),
        sa.Column("rules", sa.Text, nullable=False),
        sa.Column("card", sa.Text, nullable=False),
        sa.Column("cpu_ns", sa.Float),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(32), nullable=False, unique=True),
        sa.Column("place", sa.Integer, sa.ForeignKey("places.id"), nullable=False),
        sa.Column("entrant", sa.Integer, sa.ForeignKey("entrants.id"), nullable=False),
        sa.Column("opponent", sa.Integer, sa.ForeignKey("entrants.id")),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("scenario", sa.String(32), nullable=False),
        sa.Column("backend", sa.String(16), nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("valid", sa.Boolean, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("lateness_p99_ms", sa.Float),
        *(sa.Column(name, sa.Float) for name in FIGURES),
    )
    op.create_index("runs_of_a_cell", "runs", ["place", "entrant", "opponent", "backend"])
    op.create_index("runs_of_an_entrant", "runs", ["entrant", "place"])
    op.create_table(
        "courses",
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("series", sa.Text, nullable=False),
    )
    op.create_table(
        "means",
        sa.Column("place", sa.Integer, sa.ForeignKey("places.id"), primary_key=True),
        sa.Column("entrant", sa.Integer, sa.ForeignKey("entrants.id"), primary_key=True),
        # 0 is nobody: a primary key holds no null.
        sa.Column("opponent", sa.Integer, primary_key=True),
        sa.Column("backend", sa.String(16), primary_key=True),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("invalid", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Float) for name in FIGURES),
    )
    op.create_index("means_of_an_entrant", "means", ["entrant", "opponent", "backend"])
    op.create_index("means_of_all_alone", "means", ["backend", "opponent", "score"])
    op.create_table("notes", sa.Column("name", sa.Text, primary_key=True), sa.Column("text", sa.Text))
