"""Place Ray Train's workers in an existing placement group.

Ray Train creates a placement group of its own for its workers and has no setting to use another. Learner and
engines that share GPUs have to be in one group: fractions of a GPU that are placed separately end up on the
same GPU. Ray Train's controller reads the class of its worker group from an attribute, which is replaced
here, in the controller's process, by a class that uses the bundles of a ``Reservation``.
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


@dataclass
class SharedScaling(ray.train.ScalingConfig):
    """Scaling of the workers, with the placement group that has a bundle for each."""

    group: PlacementGroup | None = None


class InGroup(ControllerCallback):
    """Make a controller place its workers in the group of its ``SharedScaling``."""

    def after_controller_start(self, train_run_context: Any) -> None:  # noqa: ANN401 - of Ray Train, internal
        """Replace the class of the worker group; runs in the controller's process, before workers exist."""
        TrainController.worker_group_cls = _GroupedWorkers


class _GroupedWorkers(WorkerGroup):
    """Workers in the first bundles of the group, in order."""

    def _create_placement_group(self, scaling_config: Any, worker_group_context: Any) -> _Lent:  # noqa: ANN401
        return _Lent(scaling_config.group)


class _Lent(DefaultPlacementGroupHandle):
    """A placement group that survives the workers, for their successors and for engines."""

    def shutdown(self) -> None:
        """Keep the group: it belongs to the driver."""
