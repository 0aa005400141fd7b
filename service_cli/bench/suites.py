"""The suites by name, and the pools that each needs."""

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
"""The suite without a service."""
DURABILITY = "durability"
"""The suite with a service for each mode of the store."""
EPISODES = "episodes"
"""The suite with a service for each environment."""


class PoolSetting(StrEnum):
    """The state of the service's pools."""

    WARM = "warm"
    """Boxes are kept warm."""
    EMPTY = "empty"
    """No boxes are kept."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One measurement of a running service."""

    measure: Callable[[Bench], Coroutine[None, None, Figures]]
    pools: PoolSetting = PoolSetting.WARM


SUITES: Mapping[str, Suite] = MappingProxyType(
    {
        "noop_step": Suite(steps.noop_steps),
        "batch": Suite(steps.batches),
        "create_warm": Suite(lives.warm_creates),
        "fork": Suite(lives.forks),
        "idle_memory": Suite(crowds.idle_memory),
        "echo_instances": Suite(crowds.echo_crowd),
        "code_instances": Suite(crowds.code_crowd),
        "create_empty": Suite(lives.cold_creates, PoolSetting.EMPTY),
    }
)
"""Suites in the order in which they run."""
