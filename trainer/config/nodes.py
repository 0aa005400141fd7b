"""Placement of a run's parts on nodes of a Ray cluster that carry a custom resource."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

NodeResource = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,60}$")]
"""Name of a custom resource, as in ``ray start --resources='{"engines": 1}'``."""

_PART = 0.001
"""Part that one actor takes: the resource marks a node, and a thousand actors fit on each of its units."""


def part_of(resource: NodeResource | None) -> dict[str, float]:
    """Return what an actor reserves so that Ray places it on such a node; nothing without a resource."""
    return {} if resource is None else {resource: _PART}
