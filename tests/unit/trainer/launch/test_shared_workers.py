"""Learner and engines share GPUs by names that are internal to Ray Train."""

import pytest

from trainer.errors import TrainerError
from trainer.launch.shared_workers import check_ray_train


class ChangedWorkers:
    def _create_placement_group(self, scaling_config):
        """Of a version with other parameters."""


class ControllerOfChangedWorkers:
    worker_group_cls = ChangedWorkers


def test_the_installed_ray_train_creates_worker_groups_as_expected():
    check_ray_train()


def test_a_version_with_another_method_is_reported_with_a_remedy():
    with pytest.raises(TrainerError, match="install the pinned version of Ray"):
        check_ray_train(ControllerOfChangedWorkers, ChangedWorkers)
