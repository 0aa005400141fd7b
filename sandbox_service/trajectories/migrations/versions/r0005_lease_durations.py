"""Record for how long each lease was taken, so that supervisors may have different durations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column, empty until a supervisor takes or renews its lease."""
    op.add_column("trajectory_lives", sa.Column("lease_s", sa.Double))
