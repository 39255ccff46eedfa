"""Runs say how a program of somebody else failed."""

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Adds the column; no earlier run failed."""
    op.add_column("runs", sa.Column("error", sa.Text))
