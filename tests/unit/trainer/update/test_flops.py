import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.harness.architectures import tiny_model
from tests.harness.learning import load_model, run_config, small_batch, small_model
from trainer.update.flops import Meter, Work, known_peak, peak_flops
from trainer.update.learner import Learner
from trainer.update.packing import Row


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("flops") / "model", hidden=64, layers=3, words=512)


def counted(language, length):
    """Return torch's count for a pass forward and backward, of which all tokens pass the head."""
    # Only attention in plain matrix products is counted on a CPU.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        language(input_ids=torch.zeros(3, length, dtype=torch.long), use_cache=False).logits.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("length", [16, 64])
def test_work_is_what_torch_counts(folder, length):
    core = load_model(folder, run_config().learner_settings)
    expected = Work.of(core).flops([length] * 3, 3 * length)
    assert counted(core.language, length) == pytest.approx(expected, rel=0.05)


def test_heads_of_different_sizes_count_as_they_are(tmp_path):
    """Four heads in each of four layers, of size 8 and 16 by turns."""
    core = load_model(tiny_model("gemma-4", tmp_path), run_config().learner_settings)
    assert Work.of(core).of_pair == 12 * 4 * (8 + 16 + 8 + 16)


def test_frozen_weights_are_spared_their_own_gradient(folder):
    whole = Work.of(load_model(folder, run_config().learner_settings))
    adapted = Work.of(load_model(folder, run_config(learner={"lora": {"rank": 1}}).learner_settings))
    assert adapted.of_token == pytest.approx(whole.of_token * 4 / 6, rel=0.1)
    assert adapted.of_kept == pytest.approx(whole.of_kept * 4 / 6)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA GH200 480GB", 989e12),
        ("AMD Instinct MI300X", 1307e12),
        ("NVIDIA L40", None),
        ("NVIDIA A10G", None),
        ("NVIDIA RTX A4000", None),
        ("NVIDIA H800", None),
    ],
)
def test_a_gpu_has_the_peak_of_its_own_data_sheet(name, peak):
    assert known_peak(name) == peak


def test_a_peak_is_measured_where_none_is_known():
    assert 1e8 < peak_flops(torch.device("cpu"), half=False) < 1e14


def test_an_update_tells_its_speed_and_its_share_of_the_peak(folder):
    learner = Learner(folder, run_config().learner_settings, "cpu")
    learner.begin_stage(learner.settings.learner.optimizer, 2)
    metrics = learner.update(learner.annotate(small_batch()))
    tokens = sum(len(sample) for sample in small_batch().samples)
    assert metrics["throughput/update_tokens_per_s"] * metrics["time/update"] == pytest.approx(
        tokens, rel=0.05
    )
    assert 0 < metrics["throughput/mfu"] < 1


def test_a_rate_above_the_measured_peak_raises_the_peak(folder):
    meter = Meter(load_model(folder, run_config().learner_settings), torch.device("cpu"), 1, half=False)
    rows = [Row(np.zeros(512, dtype=np.int32), np.arange(512) > 0)]
    assert meter.metrics(rows, passes=1, seconds=1e-12)["throughput/mfu"] == 1.0
    assert meter.metrics(rows, passes=1, seconds=2e-12)["throughput/mfu"] == pytest.approx(0.5)
