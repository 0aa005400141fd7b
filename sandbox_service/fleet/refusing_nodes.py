"""Remember which nodes lack an environment's image or have a full disk, and sum up their refusals.

Such a node refuses creates at once, and so would stay the least loaded and be asked first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import NodeFullError, ServiceError, is_of_node
from sandbox_service.wire.frames import Op

from .requests import environment_of

if TYPE_CHECKING:
    from sandbox_service.wire.frames import Frame

    from .members import Member


AVOIDED_S = 60.0
"""Time for which a node that refused a create gets no new instances of the environment."""
STRANDED_RETRY_S = 5.0
"""Wait before a call is repeated whose instance no live node can rebuild."""
_ALL = ""
"""Stands for all environments."""


class RefusingNodes:
    """The supervisors whose nodes refused an environment's creates, as one gateway last heard."""

    def __init__(self, avoided_s: float = AVOIDED_S) -> None:
        self._avoided_s = avoided_s
        self._until: dict[tuple[str, str], float] = {}

    def note(self, environment: str, name: str, error: ServiceError, now: float) -> None:
        """Note that a supervisor refused a create of the environment for a reason of its node.

        An image is missing for this environment; a disk is full for all.
        """
        self._until = {key: until for key, until in self._until.items() if until > now}
        of = _ALL if isinstance(error, NodeFullError) else environment
        self._until[of, name] = now + self._avoided_s

    def note_refusal(self, frame: Frame, name: str, error: ServiceError, now: float) -> None:
        """Note a supervisor's answer to any frame, if it refused a create for a reason of its node."""
        if frame.op is Op.CREATE and is_of_node(error):
            self.note(environment_of(frame), name, error, now)

    def forget(self, environment: str, name: str) -> None:
        """Note that a supervisor has created an instance of the environment."""
        for of in (environment, _ALL):
            self._until.pop((of, name), None)

    def put_last(self, environment: str, names: Sequence[str], now: float) -> list[str]:
        """Return the names in their order, those that refused last: they may have image and room by now."""
        return sorted(
            names, key=lambda name: any(self._until.get((of, name), now) > now for of in (environment, _ALL))
        )


def sum_up(refusals: Mapping[str, ServiceError], members: Mapping[str, Member]) -> ServiceError:
    """Return the error of a request that all supervisors refused, given in the order in which they did.

    A create that some node may still take has that node's error. If all lack image or room, it names them.
    """
    for error in refusals.values():
        if not is_of_node(error):
            return error
    summary = _reasons(refusals, members)
    full = any(isinstance(error, NodeFullError) for error in refusals.values())
    return ServiceError(ErrorCode.STORAGE_FULL if full else ErrorCode.IMAGE_MISSING, summary)


def stranded_error(refusals: Mapping[str, ServiceError], members: Mapping[str, Member]) -> ServiceError:
    """Return the error of an instance that no live node can rebuild, for want of image or room on all."""
    detail = f"no live node can rebuild the instance: {_reasons(refusals, members)}"
    return ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, STRANDED_RETRY_S)


def _reasons(refusals: Mapping[str, ServiceError], members: Mapping[str, Member]) -> str:
    by_detail: dict[str, list[str]] = {}
    for name, error in refusals.items():
        member = members.get(name)
        by_detail.setdefault(error.detail, []).append((member and member.node) or name)
    reasons = sorted((", ".join(sorted(nodes)), detail) for detail, nodes in by_detail.items())
    if len(reasons) == 1:
        ((nodes, detail),) = reasons
        return f"on every node that was asked ({nodes}): {detail}"
    return "; ".join(f"{nodes}: {detail}" for nodes, detail in reasons)
