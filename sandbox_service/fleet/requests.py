"""Read from a request's frame which supervisor is responsible for it, and whether others may take it over."""

from __future__ import annotations

from sandbox_service.wire.frames import Frame, Op


def is_on_instance(frame: Frame) -> bool:
    """Return whether a frame is for an instance that exists already."""
    return bool(frame.instance_id) and frame.op is not Op.CREATE


def placed_by(frame: Frame) -> str:
    """Return what decides which supervisor is responsible; empty for a new instance that any may create."""
    key = frame.meta.get("key")
    if frame.instance_id or key is None:
        return frame.instance_id
    # A create that is sent again must reach the supervisor that remembers its key.
    return f"{frame.meta['tenant']}\0{key}"


def may_be_taken_over(frame: Frame) -> bool:
    """Return whether another supervisor may answer while the responsible one is not reached."""
    # An id that the tenant chose could have two instances, if its supervisor returns during the create.
    return bool(placed_by(frame)) and (is_on_instance(frame) or not frame.instance_id)


def environment_of(frame: Frame) -> str:
    """Return the environment of a create, which the gateway names; empty for every other frame."""
    return str(frame.meta.get("environment", ""))


def subject_of(frame: Frame) -> str:
    """Return the word for what a frame is about, for messages."""
    return "create" if frame.op is Op.CREATE else "instance"
