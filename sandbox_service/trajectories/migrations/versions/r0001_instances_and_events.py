"""Instances and their events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_UNENDED = sa.text("ended_at IS NULL")
_CREATE_KEY = sa.text("kind = 'create' AND idempotency_key IS NOT NULL")


def upgrade() -> None:
    """Create both tables and their indexes."""
    op.create_table(
        "instances",
        sa.Column("instance_id", sa.Text, primary_key=True),
        sa.Column("environment", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("supervisor", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("params_json", sa.LargeBinary, nullable=False),
        sa.Column("parent", sa.Text),
        sa.Column("fork_sequence", sa.BigInteger),
        sa.Column("ended_at", sa.Double),
        sa.Column("ended_by", sa.Text),
    )
    op.create_index("instances_by_time", "instances", ["created_at", "instance_id"])
    op.create_index(
        "instances_unended",
        "instances",
        ["supervisor"],
        sqlite_where=_UNENDED,
        postgresql_where=_UNENDED,
    )
    op.create_table(
        "events",
        sa.Column("instance_id", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("response", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("reward", sa.Double),
        sa.Column("timing_ms", sa.Text, nullable=False),
    )
    op.create_index(
        "events_create_key",
        "events",
        ["idempotency_key"],
        sqlite_where=_CREATE_KEY,
        postgresql_where=_CREATE_KEY,
    )
