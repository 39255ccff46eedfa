"""Second version: the learning curve of each policy."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Adds the curve; existing entrants have none."""
    op.add_column("entrants", sa.Column("curve", sa.Text, nullable=False, server_default="{}"))
