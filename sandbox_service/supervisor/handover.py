"""Hands the instances of a draining supervisor over to others.

An instance whose state can be rebuilt is left without an owner in the store as soon as no operation runs on
it; the supervisor that its next call reaches claims and rebuilds it. Others stay until they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandbox_service.errors import ServiceError
from sandbox_service.telemetry import get_logger
from sandbox_service.trajectories.ownership import NOBODY

from .doubt import record_takeover
from .instances import InstanceState

if TYPE_CHECKING:
    from sandbox_service.trajectories.base import TrajectoryStore

    from .background import BackgroundTasks
    from .instances import Instance, InstanceTable
    from .journal import Journal
    from .termination import Termination


_MOST_AT_ONCE = 256
"""Instances of one transaction."""
_MOVABLE = (InstanceState.ACTIVE, InstanceState.FINISHED)

logger = get_logger(__name__)


class Handover:
    """Hands over instances on which no operation runs."""

    def __init__(
        self,
        *,
        name: str,
        table: InstanceTable,
        journal: Journal,
        store: TrajectoryStore,
        termination: Termination,
        tasks: BackgroundTasks,
    ) -> None:
        self._name = name
        self._table = table
        self._journal = journal
        self._store = store
        self._termination = termination
        self._tasks = tasks
        self.wanted = False
        """Instances are to be handed over as soon as they can be."""

    def hand_over_idle(self) -> None:
        """Begin to hand over the instances that can be now, if that is wanted. The maintenance repeats it."""
        if not self.wanted:
            return
        movable = [each for each in self._table.live() if _is_movable(each)]
        for start in range(0, len(movable), _MOST_AT_ONCE):
            part = movable[start : start + _MOST_AT_ONCE]
            # From here to the assignment nothing is awaited, or an operation could begin in between.
            task = self._tasks.spawn(self._hand_over(part))
            for instance in part:
                instance.handover = task

    async def _hand_over(self, part: Sequence[Instance]) -> None:
        try:
            for instance in part:
                record_takeover(self._journal, instance, NOBODY)
            await self._store.disown([instance.instance_id for instance in part])
        except BaseException as error:
            # Whatever it is, also a cancellation: calls wait for the handover, and would for ever.
            self._keep(part)
            if not isinstance(error, ServiceError):
                raise
            logger.warning("handover_failed", instances=len(part), reason=error.detail)
            return
        for instance in part:
            self._table.discard(instance)
            self._termination.clear_slot(instance)
        logger.info("instances_handed_over", instances=len(part))

    def _keep(self, part: Sequence[Instance]) -> None:
        """Go on with instances that may not have been handed over."""
        for instance in part:
            instance.handover = None
        for instance in part:
            # Its last event must not say that everything was written when it may not have been.
            record_takeover(self._journal, instance, self._name)


def _is_movable(instance: Instance) -> bool:
    return (
        instance.replayable and not instance.busy and instance.handover is None and instance.state in _MOVABLE
    )
