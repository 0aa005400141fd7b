"""Let one supervisor execute a create in another's place, while no third one does.

A create with an idempotency key belongs to one supervisor. Another one may execute it once that one's lease
has run out. It claims the create in the transaction that fences the first supervisor, and ends the claim once
the create is recorded or has failed. A first supervisor that comes back meanwhile, under a new epoch, finds
the claim.

A claim lasts as long as the epoch of its holder, even if the holder's lease runs out and is renewed later.
Whoever wants the create nevertheless has to fence the holder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from .ownership import Claim, fence_owner
from .reader import create_of_key
from .records import KeyedCreate
from .schema import create_claims, lives

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from .ownership import Epoch


def claim_create(
    connection: Connection, claimant: Epoch, tenant: str, key: str, owner: str, lease_s: float
) -> Claim:
    """Claim a create of ``owner``.

    Refused while the owner's lease holds, if it has none, and while another supervisor has claimed it.
    Raises FencedError if the claimant is fenced itself, and LockedError.
    """
    claim = fence_owner(connection, claimant, owner, lease_s)
    if claim.held_s > 0 or not claim.known:
        return claim
    holder = _holder(connection, tenant, key)
    if holder is not None:
        return replace(claim, taken=holder == claimant.supervisor, holder=holder)
    connection.execute(create_claims.delete().where(*_is(tenant, key), ~_holds()))
    values = {
        "tenant": tenant,
        "idempotency_key": key,
        "supervisor": claimant.supervisor,
        "epoch": claimant.number,
    }
    # Two claimants that fenced different supervisors may both have come this far: one of them inserts.
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    inserted = insert(create_claims).values(values).on_conflict_do_nothing()
    # Not its row count, which is unknown for an insert.
    own = connection.execute(inserted.returning(create_claims.c.epoch)).scalar()
    return replace(claim, taken=own is not None)


def create_under(connection: Connection, tenant: str, key: str) -> KeyedCreate:
    """Return what the store knows of a create."""
    # In this order: a claim ends after its create is recorded.
    holder = _holder(connection, tenant, key)
    return KeyedCreate(create_of_key(connection, tenant, key), holder)


def end_create_claim(connection: Connection, holder: Epoch, tenant: str, key: str) -> None:
    """Let others execute a create again, or find its record."""
    own = (create_claims.c.supervisor == holder.supervisor, create_claims.c.epoch == holder.number)
    connection.execute(create_claims.delete().where(*_is(tenant, key), *own))


def _holder(connection: Connection, tenant: str, key: str) -> str | None:
    query = sa.select(create_claims.c.supervisor).where(*_is(tenant, key), _holds())
    return connection.execute(query).scalar()


def _is(tenant: str, key: str) -> tuple[sa.ColumnElement[bool], ...]:
    return create_claims.c.tenant == tenant, create_claims.c.idempotency_key == key


def _holds() -> sa.ColumnElement[bool]:
    """Return the condition that a claim's holder still has the epoch under which it claimed."""
    same = (lives.c.supervisor == create_claims.c.supervisor, lives.c.epoch == create_claims.c.epoch)
    return sa.exists().where(*same).correlate(create_claims)
