"""Record how the latest life of each supervisor wrote; drop the version number of earlier releases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create ``trajectory_lives`` unless an earlier release has done so; drop ``trajectory_schema``."""
    op.create_table(
        "trajectory_lives",
        sa.Column("supervisor", sa.Text, primary_key=True),
        sa.Column("durability", sa.Text, nullable=False),
        sa.Column("needs_boot", sa.Text, nullable=False),
        sa.Column("ended", sa.Boolean, nullable=False),
        if_not_exists=True,
    )
    # Releases before migrations look for this table; without it they refuse the database and change nothing.
    op.drop_table("trajectory_schema", if_exists=True)
