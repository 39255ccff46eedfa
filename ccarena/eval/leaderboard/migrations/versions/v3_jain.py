"""Jain's index says what it is of: throughputs over weights."""

from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Renames the column."""
    for table in ("runs", "means"):
        op.execute(f"ALTER TABLE {table} RENAME COLUMN jain_index TO jain_weighted")
