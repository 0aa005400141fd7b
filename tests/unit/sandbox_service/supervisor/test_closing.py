"""The time that a supervisor is given to stop covers each step of it."""

from __future__ import annotations

import pytest

from sandbox_service.config import DeadlineConfig
from sandbox_service.sandboxes.base import DESTROY_S
from sandbox_service.supervisor.closing import boxes_s, stop_s


@pytest.mark.parametrize("release_s", [1.0, 10.0, 300.0])
def test_a_supervisor_has_time_for_its_operations_and_then_for_its_boxes(release_s: float) -> None:
    deadlines = DeadlineConfig(drain_s=20.0, release_s=release_s)
    assert stop_s(deadlines) > deadlines.drain_s + boxes_s(deadlines) > deadlines.drain_s + release_s
    assert stop_s(deadlines) > deadlines.drain_s + DESTROY_S


@pytest.mark.parametrize("release_s", [0.1, 10.0, 300.0])
def test_the_sum_of_the_settings_and_a_minute_is_enough(release_s: float) -> None:
    """It is what pages and manifests ask for before SIGKILL."""
    deadlines = DeadlineConfig(release_s=release_s)
    assert stop_s(deadlines) <= deadlines.drain_s + deadlines.release_s + 60
