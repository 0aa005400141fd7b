"""nccl and ipc on real GPUs, with vLLM's own transfers at both ends. They skip themselves without GPUs."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
ray = pytest.importorskip("ray", reason="Ray is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.harness.learner_process import LearnerProcess  # noqa: E402
from tests.harness.learning import small_model  # noqa: E402
from tests.harness.local_ray import local_ray  # noqa: E402
from tests.harness.waiting import wait_until  # noqa: E402
from trainer.config import RunConfig  # noqa: E402
from trainer.engines.fleet import start_engines  # noqa: E402
from trainer.engines.generation import GenerationRequest, Sampling  # noqa: E402
from trainer.engines.pool import EnginePool  # noqa: E402
from trainer.types import EpisodeKey, TaskRef, VersionSpan  # noqa: E402
from trainer.weight_sync.agreement import limits_of  # noqa: E402
from trainer.weight_sync.snapshots import WeightSnapshot, newest_snapshot, snapshot_folder  # noqa: E402

GPUS = torch.cuda.device_count()

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.vllm,
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(GPUS == 0, reason="there is no GPU"),
    # Ray's own modules warn about event loops and subprocesses that they leave to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]

WORDS = 128
CACHE_MIB = 256


@pytest.fixture
def cluster():
    """Ray on this machine."""
    with local_ray(object_store_mib=200):
        yield


def settings(tmp_path, transport: str, dtype: str, share: float | None) -> RunConfig:
    engine = {"dtype": dtype, "gpus": share, "gpu_memory_share": 0.3, "kv_cache_mib": CACHE_MIB}
    engine["eager"] = dtype == "float32"  # an engine that compiles starts half a minute later
    return RunConfig.model_validate(
        {
            "name": f"gpu-{transport}",
            "root": tmp_path,
            "engine": {name: value for name, value in engine.items() if value is not None},
            "learner": {"gpus": share or 1},
            "sync": {"transport": transport, "timeout_s": 300},
        }
    )


def version_of(snapshot: WeightSnapshot | None) -> int | None:
    return None if snapshot is None else snapshot.version


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("transport", "share"),
    [
        pytest.param(
            "nccl", None, marks=pytest.mark.skipif(GPUS < 2, reason="learner and engine want a GPU each")
        ),
        ("ipc", 0.5),
        ("shared_file", 0.5),
    ],
)
def test_a_weight_sync_arrives_and_an_engine_that_dies_finds_it_again(
    cluster, tmp_path, transport, share, dtype
):
    run = settings(tmp_path, transport, dtype, share)
    model = small_model(tmp_path / "model", hidden=256, words=WORDS, context=1024)
    allowed = limits_of(run.hardware, "cuda").fail
    (engine,) = start_engines(run.engine_settings, model, "cuda")
    remote = ray.remote(num_gpus=share or 1)(LearnerProcess)
    learner = remote.remote(run.model_dump_json(), str(model))
    for version in (1, 2):
        report = ray.get(learner.sync_weights.remote(version), timeout=400)
        assert report.agreement.difference <= allowed
        assert (report.lost, report.bytes > 0) == ((), True)
    wait_until(lambda: version_of(newest_snapshot(snapshot_folder(run.folder, run.sync.folder))) == 2)
    asked = GenerationRequest(EpisodeKey("0.0", TaskRef("e", "s", "t"), 0), (1, 2, 3), 60, Sampling(), seed=1)

    async def sampled():
        async with EnginePool([engine]) as pool:
            first = await pool.generate(asked)
            engine.kill()
            return first, await pool.generate(asked)

    for generation in asyncio.run(sampled()):
        assert generation.versions == (VersionSpan(0, 60, 2),)
        expected = ray.get(learner.logprobs.remote(asked.token_ids + generation.token_ids))[3:]
        assert np.abs(np.asarray(generation.logprobs) - expected).mean() <= allowed
    report = ray.get(learner.sync_weights.remote(3), timeout=400)
    assert report.agreement.difference <= allowed


def test_an_engine_that_sleeps_leaves_its_memory_and_wakes_with_what_is_synced(cluster, tmp_path):
    run = settings(tmp_path, "ipc", "bfloat16", 0.5)
    run = run.model_copy(update={"engine": run.engine.model_copy(update={"sleep": True})})
    model = small_model(tmp_path / "model", hidden=256, words=WORDS, context=1024)
    (engine,) = start_engines(run.engine_settings, model, "cuda")
    learner = ray.remote(num_gpus=0.5)(LearnerProcess).remote(run.model_dump_json(), str(model))
    awake = ray.get(learner.sync_weights.remote(1), timeout=400)
    free = torch.cuda.mem_get_info()[0]
    left = ray.get(learner.sleep_engines.remote(), timeout=100) - free
    assert left > 0.8 * (CACHE_MIB << 20)
    report = ray.get(learner.sync_weights.remote(2), timeout=400)
    assert (
        max(awake.agreement.difference, report.agreement.difference) <= limits_of(run.hardware, "cuda").fail
    )

    async def sampled():
        async with EnginePool([engine]) as pool:
            key = EpisodeKey("0.0", TaskRef("e", "s", "t"), 0)
            return await pool.generate(GenerationRequest(key, (1, 2, 3), 60, Sampling(), seed=1))

    assert asyncio.run(sampled()).versions == (VersionSpan(0, 60, 2),)
