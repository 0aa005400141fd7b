"""Ray Train's workers inside of a placement group that is there already.

Ray Train makes a placement group of its own for its workers, and has no setting for another. Where learner
and engines share GPUs, shares that are placed apart do not meet: two small ones go to one GPU. Its
controller takes the class of its worker group from an attribute, which is exchanged here, in the process of
the controller, for one that takes the bundles of a ``Reservation``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ray.train
from ray.train.v2._internal.execution.callback import ControllerCallback
from ray.train.v2._internal.execution.controller.controller import TrainController
from ray.train.v2._internal.execution.worker_group.placement_group_handle import DefaultPlacementGroupHandle
from ray.train.v2._internal.execution.worker_group.worker_group import WorkerGroup

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup

__all__ = ["InGroup", "SharedScaling"]


@dataclass
class SharedScaling(ray.train.ScalingConfig):
    """How many workers there are, and the placement group that has a bundle for each."""

    group: PlacementGroup | None = None


class InGroup(ControllerCallback):
    """Makes a controller place its workers in the group of its ``SharedScaling``."""

    def after_controller_start(self, train_run_context: Any) -> None:  # noqa: ANN401 - of Ray Train, internal
        """Called in the controller's process, before there are workers."""
        TrainController.worker_group_cls = _GroupedWorkers


class _GroupedWorkers(WorkerGroup):
    """Workers in the first bundles of the group, in order."""

    def _create_placement_group(self, scaling_config: Any, worker_group_context: Any) -> _Lent:  # noqa: ANN401
        return _Lent(scaling_config.group)


class _Lent(DefaultPlacementGroupHandle):
    """A placement group that stays when the workers end, for those that are started next, and for engines."""

    def shutdown(self) -> None:
        """Leave it."""
