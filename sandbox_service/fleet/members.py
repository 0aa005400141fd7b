"""The members of a fleet: a supervisor's name, its address, and the secret of its stream; and who is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sandbox_service.errors import VersionMismatchError
from sandbox_service.supervisor.options import version_of

if TYPE_CHECKING:
    from sandbox_service.errors import ServiceError
    from sandbox_service.fleet.scaling import FleetScale
    from sandbox_service.stream.address import Address
    from sandbox_service.supervisor.options import SupervisorAddress


@dataclass(frozen=True, slots=True)
class Member:
    """One supervisor, as a gateway reaches it."""

    name: str
    """``[a-z0-9]+``; ids of its instances begin with it and a dot."""
    address: Address
    secret: str = field(repr=False)
    """Secret that both ends of its stream prove to know; a restarted supervisor may have another."""
    node: str = ""
    """Address of its node, for messages."""


def mismatch_of(name: str, address: SupervisorAddress, version: str) -> VersionMismatchError | None:
    """Return the error of a supervisor that has another version of the service; None if it has this one."""
    theirs = version_of(address)
    return None if theirs == version else VersionMismatchError(name, address.host, theirs, version)


@dataclass(frozen=True, slots=True)
class FleetView:
    """Knowledge of a gateway process about the fleet, beside the members' own statistics."""

    excluded: int = 0
    """Supervisors that get no requests."""
    restarted: int = 0
    """Supervisors that this process had restarted, since they did not answer for ``fleet.hung_s``."""
    scale: FleetScale | None = None
    """The scaler's last decision; None without scaling."""


class Discovery(Protocol):
    """Finds the supervisors, and caches the result."""

    @property
    def excluded(self) -> Mapping[str, ServiceError]:
        """Supervisors that are known and get no requests, with the reason, as last found."""
        ...

    async def members(self) -> Mapping[str, Member]:
        """Return the supervisors by name, as last found."""
        ...

    async def refresh(self) -> Mapping[str, Member]:
        """Find the supervisors again, after a cached address failed, and return what is known by then.

        Concurrent calls share one refresh, which goes on if a call does not wait for its end.
        """
        ...

    async def close(self) -> None:
        """Stop refreshing."""
        ...
