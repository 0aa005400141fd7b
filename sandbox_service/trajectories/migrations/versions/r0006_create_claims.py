"""Note which creates a supervisor executes in another's place, so that each is executed once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "trajectory_create_claims",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("idempotency_key", sa.Text, primary_key=True),
        sa.Column("supervisor", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )
