"""Learner and engines on GPUs that Ray only pretends to have: who is placed where."""

import json
import os
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytest.importorskip("torch", reason="torch is not installed")

import ray.train  # noqa: E402, F811
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer  # noqa: E402

from tests.harness.local_ray import local_ray  # noqa: E402
from tests.harness.sampling import is_whole, sampled  # noqa: E402
from trainer.config import RunConfig  # noqa: E402
from trainer.engines.placement import own_gpus, reserve  # noqa: E402
from trainer.errors import EngineError  # noqa: E402
from trainer.launch.fit import scaling  # noqa: E402
from trainer.launch.shared_workers import InGroup  # noqa: E402

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # Ray's own modules warn about event loops and subprocesses that they leave to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]

CPUS = 0.1
"""Of each process; none of them computes."""


PART = "placement"
SHARED = ((8, 0.4, 0.6), (3, 0.4, 0.6), (2, 0.5, 0.5))
"""GPUs, and the shares of a worker and an engine on each."""


@pytest.fixture(scope="module")
def cluster():
    with local_ray(num_gpus=8 if is_whole(PART) else 4, num_cpus=4):
        yield


class Engine:
    """Takes an engine's place, as EngineActor does."""

    def __init__(self, neighbours):
        self._shares = neighbours.take() if neighbours is not None else []

    async def gpus(self):
        return os.environ["CUDA_VISIBLE_DEVICES"].split(",")


def run(learner, engine):
    return RunConfig.model_validate(
        {
            "learner": {"cpus": CPUS, **learner},
            "engine": {"cpus": CPUS, "start_timeout_s": 20, **engine},
        }
    )


def placed_engines(config, reserved):
    return [
        ray.remote(Engine).options(**reserved.options(index)).remote(reserved.neighbours(index))
        for index in range(config.engine.count)
    ]


def gpus_of(engines):
    return ray.get([engine.gpus.remote() for engine in engines], timeout=300)


def report_gpus(config):
    """Runs in each worker, and says where it is."""
    folder, rank = Path(config["folder"]), ray.train.get_context().get_world_rank()
    (folder / f"{rank}.json").write_text(json.dumps(own_gpus()))
    ended = folder / "ended"
    if config["restarted"] and rank == 0 and not ended.exists():
        ended.touch()
        raise RuntimeError("the first attempt ends")


def gpus_of_workers(config, reserved, folder, restarted=False):
    """Those of each rank, if asked for after the group of workers was started again."""
    folder.mkdir()
    trainer = DataParallelTrainer(
        report_gpus,
        train_loop_config={"folder": str(folder), "restarted": restarted},
        scaling_config=scaling(config.learner, reserved),
        run_config=ray.train.RunConfig(
            name="placement",
            storage_path=str(folder),
            failure_config=ray.train.FailureConfig(max_failures=1 if restarted else 0),
            callbacks=[InGroup()],
        ),
    )
    trainer.fit()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(config.learner.most_workers)]


@pytest.mark.parametrize(("count", "learner_share", "engine_share"), sampled(PART, SHARED, [(3, 0.4, 0.6)]))
def test_each_shared_gpu_has_one_worker_and_one_engine(cluster, tmp_path, count, learner_share, engine_share):
    config = run({"workers": count, "gpus": learner_share}, {"count": count, "gpus": engine_share})
    reserved = reserve(config.hardware, "cuda")
    try:
        engines = placed_engines(config, reserved)
        before = gpus_of(engines)
        assert sorted(before) == sorted([str(gpu)] for gpu in range(count))
        restarted = count == 2
        assert gpus_of_workers(config, reserved, tmp_path / "workers", restarted) == before
        assert gpus_of(engines) == before
    finally:
        reserved.release()


def test_a_tensor_parallel_engine_has_its_share_of_as_many_workers_gpus(cluster, tmp_path):
    config = run({"workers": 4, "gpus": 0.6}, {"count": 2, "gpus": 0.4, "tensor_parallel": 2})
    reserved = reserve(config.hardware, "cuda")
    try:
        engines = placed_engines(config, reserved)
        first, second = gpus_of(engines)
        assert len({*first, *second}) == 4
        workers = gpus_of_workers(config, reserved, tmp_path / "workers")
        assert workers == [[gpu] for gpu in (*first, *second)]
    finally:
        reserved.release()


def test_gpus_of_their_own_are_taken_whole(cluster):
    config = run({"workers": 2, "gpus": 1}, {"tensor_parallel": 2})
    reserved = reserve(config.hardware, "cuda")
    try:
        taken = [gpu for gpus in gpus_of(placed_engines(config, reserved)) for gpu in gpus]
        assert len(taken) == len(set(taken)) == 2
        assert scaling(config.learner, reserved).group is None
    finally:
        reserved.release()


def test_a_cluster_with_too_few_gpus_is_told_in_a_sentence(cluster):
    config = run({"workers": 9, "gpus": 0.6}, {"count": 9, "gpus": 0.4, "start_timeout_s": 1})
    with pytest.raises(EngineError, match="no room for 9 GPUs that learner and engines share"):
        reserve(config.hardware, "cuda")
