"""The members of a fleet: a supervisor's name, its address, and the secret of its stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sandbox_service.stream.address import Address


@dataclass(frozen=True, slots=True)
class Member:
    """One supervisor, as a gateway reaches it."""

    name: str
    """``[a-z0-9]+``; ids of its instances begin with it and a dot."""
    address: Address
    secret: str = field(repr=False)
    """Secret that both ends of its stream prove to know; a restarted supervisor may have another."""


class Discovery(Protocol):
    """Finds the supervisors, and caches the result."""

    async def members(self) -> Mapping[str, Member]:
        """Return the supervisors by name, as last found."""
        ...

    async def refresh(self) -> Mapping[str, Member]:
        """Find the supervisors again, after a cached address failed. Concurrent calls share one refresh."""
        ...

    async def close(self) -> None:
        """Stop refreshing."""
        ...
