"""Let one supervisor execute a create in another's place, while no third one does.

A create with an idempotency key belongs to one supervisor. Another one may execute it once the lease of that
one has run out. It claims the create in the transaction that fences the first supervisor, and ends the claim
when the create is recorded or has failed. A first supervisor that comes back meanwhile, under a new epoch,
finds the claim and leaves the create to the claimant; so does every other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from .ownership import Claim, database_time, fence_owner, living_supervisors
from .schema import create_claims

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from .ownership import Epoch


LONGEST_S = 3600.0
"""Time after which a claim that was not ended counts no more: no create waits as long for box and image."""


def claim_create(
    connection: Connection, claimant: Epoch, tenant: str, key: str, owner: str, lease_s: float
) -> Claim:
    """Claim a create of ``owner``, unless its lease holds, or it is unknown, or another one has the create.

    Raises FencedError if the claimant is fenced itself.
    """
    # Locks the owner's row, so that of two claimants the second one finds what the first has written.
    claim = fence_owner(connection, claimant, owner, lease_s)
    holder = create_claimant(connection, tenant, key)
    if claim.held_s > 0 or not claim.known or holder not in (None, claimant.supervisor):
        return claim
    now = database_time(connection)
    ended = sa.or_(sa.and_(*_is(tenant, key)), create_claims.c.at < now - LONGEST_S, create_claims.c.at > now)
    connection.execute(create_claims.delete().where(ended))
    values = {"tenant": tenant, "idempotency_key": key, "supervisor": claimant.supervisor, "at": now}
    connection.execute(create_claims.insert(), values)
    return Claim(taken=True, fenced=claim.fenced)


def create_claimant(connection: Connection, tenant: str, key: str) -> str | None:
    """Return the supervisor that executes a create in another's place; None if none that lives does."""
    query = sa.select(create_claims.c.supervisor, create_claims.c.at).where(*_is(tenant, key))
    row = connection.execute(query).first()
    if row is None or not 0.0 <= database_time(connection) - float(row.at) < LONGEST_S:
        return None
    return str(row.supervisor) if row.supervisor in living_supervisors(connection) else None


def end_create_claim(connection: Connection, supervisor: str, tenant: str, key: str) -> None:
    """Let others execute a create again, or find its record."""
    own = create_claims.c.supervisor == supervisor
    connection.execute(create_claims.delete().where(*_is(tenant, key), own))


def _is(tenant: str, key: str) -> tuple[sa.ColumnElement[bool], ...]:
    return create_claims.c.tenant == tenant, create_claims.c.idempotency_key == key
