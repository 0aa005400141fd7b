"""Run migrations on the caller's connection and in its transaction. Alembic executes this file."""

from __future__ import annotations

from alembic import context

from sandbox_service.trajectories.schema import metadata, revision

# The caller holds a lock and commits: either the whole upgrade is in the database, or none of it.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=revision.name,
)
context.run_migrations()
