"""The suites by name, and the pool that each needs under it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from . import crowds, lives, steps

if TYPE_CHECKING:
    from .context import Bench, Figures


CLIENT = "client"
"""The suite that needs no service."""
DURABILITY = "durability"
"""The suite that has a service for each mode of the store."""
EPISODES = "episodes"
"""The suite that has a service for each environment."""


class Pools(StrEnum):
    """How the service's pools are set."""

    WARM = "warm"
    """Boxes wait."""
    EMPTY = "empty"
    """None does."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One measurement of a running service."""

    measure: Callable[[Bench], Coroutine[None, None, Figures]]
    pools: Pools = Pools.WARM


SUITES: Mapping[str, Suite] = MappingProxyType(
    {
        "noop_step": Suite(steps.noop_steps),
        "batch": Suite(steps.batches),
        "create_warm": Suite(lives.warm_creates),
        "fork": Suite(lives.forks),
        "idle_memory": Suite(crowds.idle_memory),
        "echo_instances": Suite(crowds.echo_crowd),
        "code_instances": Suite(crowds.code_crowd),
        "create_empty": Suite(lives.cold_creates, Pools.EMPTY),
    }
)
"""In the order in which they run."""
