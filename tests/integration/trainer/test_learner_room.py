"""A learner for which no node of a Ray cluster has room ends its run, and says so before."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytest.importorskip("torch", reason="torch is not installed")

from tests.harness.local_ray import local_ray  # noqa: E402
from trainer.config import RunConfig  # noqa: E402
from trainer.errors import TrainerError  # noqa: E402
from trainer.launch.fit import fit  # noqa: E402
from trainer.loop.entry import WorkerSettings  # noqa: E402

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]

ATTEMPTS_OF_A_SECOND = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "1"}


def test_a_mark_that_no_node_has_is_warned_of_and_ends_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = RunConfig.model_validate({"root": tmp_path, "learner": {"node_resource": "trainer"}})
    folder = tmp_path / "run"
    folder.mkdir()
    settings = WorkerSettings(config.model_dump_json(), "no model", str(folder), "no actor", "no namespace")
    with (
        caplog.at_level(logging.WARNING),
        local_ray(ATTEMPTS_OF_A_SECOND, num_cpus=2),
        pytest.raises(
            TrainerError, match=r"did not start within 4 s .* no node of the cluster has 1 CPU, 0.001 t"
        ),
    ):
        fit(config.learner, config.checkpoint, settings, folder / "checkpoints", room_s=4.0)
    assert "waiting up to 4 s for one (engine.start_timeout_s)" in caplog.text
