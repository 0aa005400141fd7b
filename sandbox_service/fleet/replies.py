"""Read what a supervisor's answer says of the owner of an instance, or of who may execute a create."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, is_of_node
from sandbox_service.stream.failures import error_of
from sandbox_service.stream.routing import OWNER
from sandbox_service.wire.frames import Frame, Op


@dataclass(frozen=True, slots=True)
class FleetReplies:
    """The answers of all supervisors to one request."""

    frames: tuple[Frame, ...]
    missing: tuple[str, ...] = ()
    """Supervisors without one: they are away or late, refused the request, or get none."""
    refusals: Mapping[str, ServiceError] = field(default_factory=dict)
    """The errors with which supervisors refused the request, by name."""


def new_owner(reply: Frame) -> str | None:
    """Return the supervisor that has the instance now, empty if none has; None for every other answer."""
    owner = reply.meta.get(OWNER) if reply.op is Op.ERROR else None
    return owner if isinstance(owner, str) else None


def code_of(reply: Frame) -> ErrorCode | None:
    """Return the code of an error; None for every other answer."""
    return error_of(reply).code if reply.op is Op.ERROR else None


def is_unknown(reply: Frame) -> bool:
    """Return whether a supervisor knows neither the instance nor its owner."""
    return code_of(reply) is ErrorCode.UNKNOWN_INSTANCE and new_owner(reply) is None


def is_refused_by_node(reply: Frame) -> bool:
    """Return whether a supervisor's node lacks the image, or room for a box."""
    return reply.op is Op.ERROR and is_of_node(error_of(reply))


def is_left_to_others(frame: Frame, reply: Frame) -> bool:
    """Return whether a supervisor refused a create that another one may execute."""
    if frame.op is not Op.CREATE:
        return False
    return code_of(reply) is ErrorCode.DRAINING or is_refused_by_node(reply)
