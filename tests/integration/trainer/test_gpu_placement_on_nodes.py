"""Shared GPUs of a cluster with several nodes, whose GPUs Ray only pretends to have."""

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytest.importorskip("torch", reason="torch is not installed")

from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: E402

from tests.harness.ray_nodes import ray_nodes  # noqa: E402
from trainer.config import RunConfig  # noqa: E402
from trainer.engines.placement import actor_options, reserve  # noqa: E402
from trainer.launch.fit import scaling  # noqa: E402

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]


class Process:
    """Takes the place of an engine or a worker."""

    def __init__(self, neighbours=None):
        self._shares = neighbours.take() if neighbours is not None else []

    def node(self):
        return ray.get_runtime_context().get_node_id()


def test_tensor_parallel_engines_share_the_gpus_of_marked_nodes():
    with ray_nodes(1, further=[{"num_cpus": 4, "num_gpus": 2, "resources": {"trainer": 1}}] * 2):
        config = RunConfig.model_validate(
            {
                "learner": {"workers": 4, "gpus": 0.6, "node_resource": "trainer"},
                "engine": {"count": 2, "gpus": 0.4, "tensor_parallel": 2, "start_timeout_s": 60},
            }
        )
        reserved = reserve(config.hardware, "cuda")
        process = ray.remote(Process)
        engines = [
            process.options(**reserved.options(index)).remote(reserved.neighbours(index))
            for index in range(2)
        ]
        needed = scaling(config.learner, reserved).resources_per_worker
        workers = [
            process.options(
                scheduling_strategy=PlacementGroupSchedulingStrategy(reserved.group, index),
                **actor_options(needed),
            ).remote()
            for index in range(4)
        ]
        of_engines, of_workers = (
            ray.get([each.node.remote() for each in processes], timeout=300)
            for processes in (engines, workers)
        )
        assert len(set(of_engines)) == 2
        for engine, bundles in zip(of_engines, reserved.bundles, strict=True):
            assert {of_workers[bundle] for bundle in bundles} == {engine}
