"""Remember where an environment's image is missing, and sum up why no supervisor created an instance.

A node without the image refuses creates at once, and so would stay the least loaded and be asked first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from .members import Member


AVOIDED_S = 60.0
"""Time for which a supervisor without the image gets no new instances of the environment."""


class MissingImages:
    """The supervisors that lack an environment's image, as one gateway last heard."""

    def __init__(self, avoided_s: float = AVOIDED_S) -> None:
        self._avoided_s = avoided_s
        self._until: dict[tuple[str, str], float] = {}

    def note(self, environment: str, name: str, now: float) -> None:
        """Note that a supervisor refused a create of the environment for want of its image."""
        self._until = {key: until for key, until in self._until.items() if until > now}
        self._until[environment, name] = now + self._avoided_s

    def forget(self, environment: str, name: str) -> None:
        """Note that a supervisor has created an instance of the environment."""
        self._until.pop((environment, name), None)

    def put_last(self, environment: str, names: Sequence[str], now: float) -> list[str]:
        """Return the names in their order, those without the image last: it may be there by now."""
        return sorted(names, key=lambda name: self._until.get((environment, name), now) > now)


def sum_up(refusals: Mapping[str, ServiceError], members: Mapping[str, Member]) -> ServiceError:
    """Return the error of a request that all supervisors refused, given in the order in which they did.

    A create that some node may still take has that node's error. If all lack the image, it names the nodes.
    """
    for error in refusals.values():
        if error.code is not ErrorCode.IMAGE_MISSING:
            return error
    nodes = ", ".join(sorted(members[name].node or name for name in refusals))
    detail = next(iter(refusals.values())).detail
    return ServiceError(ErrorCode.IMAGE_MISSING, f"on every node that was asked ({nodes}): {detail}")
