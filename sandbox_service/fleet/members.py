"""Who is in the fleet: a supervisor's name, where it listens, and the secret that its stream asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sandbox_service.stream.address import Address

__all__ = ["Discovery", "Member", "StaticDiscovery"]


@dataclass(frozen=True, slots=True)
class Member:
    """One supervisor, as a gateway reaches it."""

    name: str
    """``[a-z0-9]+``; ids of its instances begin with it and a dot."""
    address: Address
    secret: str = field(repr=False)
    """What both ends of its stream prove to know; a restarted supervisor may have another."""


class Discovery(Protocol):
    """Finds the supervisors; the answers are cached."""

    async def members(self) -> Mapping[str, Member]:
        """The supervisors by name, as last seen."""
        ...

    async def refresh(self) -> Mapping[str, Member]:
        """Look again, since somebody found the last answer wrong. Concurrent calls share one look."""
        ...

    async def close(self) -> None:
        """Stop looking."""
        ...


class StaticDiscovery:
    """A fleet that somebody else keeps: one process, a test, a fixed list of addresses."""

    def __init__(self, members: Iterable[Member] = ()) -> None:
        self._members: Mapping[str, Member] = MappingProxyType({})
        self.set_members(members)

    def set_members(self, members: Iterable[Member]) -> None:
        """Replace the fleet."""
        self._members = MappingProxyType({member.name: member for member in members})

    async def members(self) -> Mapping[str, Member]:
        return self._members

    async def refresh(self) -> Mapping[str, Member]:
        return self._members

    async def close(self) -> None:
        return None
