"""Record which supervisor owns an instance, and its lease and epoch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_TAKEN_OVER = sa.text("ended_at IS NULL AND owner IS NOT NULL")


def upgrade() -> None:
    """Add the columns of ownership; all instances still belong to the supervisors that created them."""
    op.add_column("instances", sa.Column("owner", sa.Text))
    op.create_index(
        "instances_taken_over",
        "instances",
        ["owner"],
        sqlite_where=_TAKEN_OVER,
        postgresql_where=_TAKEN_OVER,
    )
    op.add_column("trajectory_lives", sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column(
        "trajectory_lives", sa.Column("leased_until", sa.Double, nullable=False, server_default="0")
    )
