"""Bytes of snapshots, adapters and checkpoints, against those of files that are written."""

import pytest
import torch

from tests.harness.learning import run_config, small_batch, small_model
from tests.harness.separate_packages import need_torchao
from trainer.capacity.storage import checkpoint_bytes, snapshot_bytes
from trainer.update.learner import Learner
from trainer.update.memory import shape_of
from trainer.weight_sync.adapter import AdapterFolder
from trainer.weight_sync.snapshots import snapshot_folder
from trainer.weight_sync.weights import complete, file_weights


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("storage") / "model", hidden=64, layers=4, words=500)


def test_snapshots_are_as_large_as_their_files_at_the_peak(folder, tmp_path):
    config = run_config(model={"kind": "pretrained", "path": str(folder)})
    learner = Learner(folder, config.learner_settings, "cpu")
    kept = []

    def free(_):
        """Note the bytes that are there when the next file is written."""
        kept.append(sum(file.stat().st_size for file in tmp_path.glob("weights-*")))
        return 1 << 40

    for version in range(4):
        weights = complete(learner.named_weights(), torch.float32)
        _, size = file_weights(tmp_path, tmp_path, version, weights, free)
    shape = shape_of(folder, config.learner_settings)
    tied = learner.model.core.language.config.tie_word_embeddings
    computed = snapshot_bytes(config.hardware, shape, "cpu", tied=tied, trained=shape.trained)
    assert computed == pytest.approx(max(kept) + size, rel=0.02)


def test_adapters_that_are_kept_for_requests_in_progress_are_snapshots(folder, tmp_path):
    lora = {"rank": 4}
    config = run_config(
        model={"kind": "pretrained", "path": str(folder)},
        learner={"lora": lora},
        sync={"transport": "adapter", "folder": tmp_path},
    )
    learner = Learner(folder, config.learner_settings, "cpu")
    transport, peak = AdapterFolder(config.sync_settings, learner, 0), 0
    for version in range(7):
        size = transport.gather(version)
        files = snapshot_folder(config.folder, tmp_path).glob("adapter-*/*.safetensors")
        peak = max(peak, sum(file.stat().st_size for file in files) + size)
    shape = shape_of(folder, config.learner_settings)
    computed = snapshot_bytes(config.hardware, shape, "cpu", tied=True, trained=shape.trained)
    assert computed == pytest.approx(peak, rel=0.1)


@pytest.mark.parametrize("moments", ["float32", "8bit"])
def test_a_checkpoint_is_as_large_as_its_files(folder, tmp_path, moments):
    """Moments in 8 bits are saved in 32, so that a run can go on with others."""
    if moments == "8bit":
        need_torchao()
    config = run_config(
        model={"kind": "pretrained", "path": str(folder)},
        learner={"optimizer": {"moments": moments}},
        algorithm={"kl": {"place": "loss"}},
    )
    learner = Learner(folder, config.learner_settings, "cpu")
    learner.begin_stage(config.learner.optimizer, 1)
    learner.update(learner.annotate(small_batch(words=500)))
    learner.save(tmp_path).result(timeout=60)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    shape = shape_of(folder, config.learner_settings)
    # Names of tensors and random states take 0.4 MB beside tensors of 3.7 MB.
    assert checkpoint_bytes(shape, reference=True) == pytest.approx(size, abs=5e5)
