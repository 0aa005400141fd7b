"""The parts that the supervisor's verbs share, put together once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from sandbox_service.environments.registry import Registry
    from sandbox_service.trajectories.base import TrajectoryStore

    from .answers import AnswerMemory
    from .background import BackgroundTasks
    from .clock import Clock
    from .endings import Endings
    from .instances import InstanceTable
    from .journal import Journal
    from .pools import Pools


@dataclass(frozen=True, slots=True)
class Parts:
    """What a verb may need."""

    name: str
    config: ServiceConfig
    registry: Registry
    store: TrajectoryStore
    clock: Clock
    tasks: BackgroundTasks
    answers: AnswerMemory
    table: InstanceTable
    journal: Journal
    pools: Pools
    endings: Endings
