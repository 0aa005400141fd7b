"""Index instances by the instance from which they were forked, so that pruning finds whole families."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_IS_FORK = sa.text("parent IS NOT NULL")


def upgrade() -> None:
    """Create the index, which holds forks only."""
    op.create_index(
        "instances_by_parent", "instances", ["parent"], sqlite_where=_IS_FORK, postgresql_where=_IS_FORK
    )
