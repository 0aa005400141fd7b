"""What the gateway needs of the fleet: something that carries a frame to the supervisor of an instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sandbox_service.wire.frames import Frame, Op


class Backend(Protocol):
    """The way from a gateway replica to the supervisors. Gives REPLY frames; anything else is raised."""

    async def call(
        self,
        op: Op,
        *,
        tenant: str,
        instance_id: str,
        meta: Mapping[str, object],
        body: bytes,
        timeout_s: float,
    ) -> Frame:
        """Ask the supervisor that owns the instance, or the one chosen for a new one.

        Raises ServiceError: the supervisor's own, SUPERVISOR_UNAVAILABLE when nobody answers for the
        instance, OUTCOME_UNKNOWN when the stream broke in between, DEADLINE_EXCEEDED past ``timeout_s``.
        """
        ...

    async def everywhere(
        self, op: Op, *, tenant: str, meta: Mapping[str, object], body: bytes, timeout_s: float
    ) -> list[Frame]:
        """Ask every supervisor at once; the answers of those that answered in time."""
        ...
