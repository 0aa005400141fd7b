"""A learner on a GPU computes what it computes on a CPU, whatever the architecture and the way."""

import numpy as np
import pytest
import torch

from tests.harness.architectures import ARCHITECTURES, WINDOW, WORDS, tiny_model
from tests.harness.learning import load_model, run_config, small_batch, small_model
from trainer.errors import ConfigError
from trainer.update import attention
from trainer.update.learner import Learner
from trainer.update.logprobs import token_statistics
from trainer.update.packing import Row, lay_out
from trainer.update.varlen import varlen_attention

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

LENGTHS = (3 * WINDOW, 14, 2, WINDOW, WINDOW - 1)
# An update that is nearly linear in the gradient, so that rounding stays rounding.
STEADY = {"learning_rate": 1e-2, "epsilon": 1.0}
WAYS = {
    "packed": {"layout": "packed"},
    "checkpointing": {"gradient_checkpointing": True},
    "inputs of layers in host memory": {"gradient_checkpointing": True, "offload_activations": True},
    "moments in host memory": {"offload": "optimizer"},
}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def made(request, tmp_path_factory):
    """The folder of a tiny model, some rows, and their log-probabilities in float32 on the CPU."""
    folder = tiny_model(request.param, tmp_path_factory.mktemp("architecture"))
    rng = np.random.default_rng(0)
    rows = [Row(rng.integers(0, WORDS, n).astype(np.int32), np.arange(n) > 0) for n in LENGTHS]
    return folder, rows, logprobs(folder, rows, "padded", "cpu")


def logprobs(folder, rows, layout, device, *, half=False):
    learner = {"layout": layout, "dtype": "bfloat16" if half else "float32"}
    model = load_model(folder, run_config(learner=learner).learner_settings).to(device).eval()
    micro = lay_out(rows, tuple(range(len(rows))), layout, torch.device(device))
    with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=half):
        return model(micro).logprobs_K.float().cpu()


def packed_or_skipped(folder, rows, **settings):
    try:
        return logprobs(folder, rows, "packed", "cuda", **settings)
    except ConfigError as refused:
        pytest.skip(str(refused))


def test_rows_have_the_log_probabilities_of_a_cpu(made):
    folder, rows, expected = made
    torch.testing.assert_close(logprobs(folder, rows, "padded", "cuda"), expected, atol=1e-4, rtol=0)


def test_packed_rows_have_the_log_probabilities_of_a_cpu(made):
    folder, rows, expected = made
    torch.testing.assert_close(packed_or_skipped(folder, rows), expected, atol=1e-4, rtol=0)


def test_packed_rows_in_bfloat16_are_as_near_to_float32_as_padded_ones(made):
    folder, rows, expected = made
    packed = packed_or_skipped(folder, rows, half=True)
    padded = logprobs(folder, rows, "padded", "cuda", half=True)
    far, allowed = ((each - expected).abs().mean() for each in (packed, padded))
    assert far <= 2 * allowed + 1e-3


def test_packed_rows_in_bfloat16_take_the_kernel_for_sequences(tmp_path, monkeypatch):
    calls = []

    def counted(*words):
        calls.append(words)
        return varlen_attention(*words)

    monkeypatch.setattr(attention, "varlen_attention", counted)
    folder = small_model(tmp_path / "model")
    rows = [Row(np.arange(n, dtype=np.int32) + 2, np.arange(n) > 0) for n in LENGTHS]
    logprobs(folder, rows, "packed", "cuda", half=True)
    assert len(calls) == 2  # layers


def learned(folder, device, **settings):
    """The weights after three updates, and each update's metrics."""
    config = run_config(learner={"optimizer": STEADY, "dtype": "float32", "minibatches": 2, **settings})
    learner = Learner(folder, config.learner_settings, device)
    learner.begin_stage(config.learner.optimizer, 10)
    metrics = [learner.update(learner.annotate(small_batch(step))) for step in range(3)]
    return {name: weight.cpu() for name, weight in learner.named_weights()}, metrics


def test_logits_in_several_slices_have_the_statistics_of_a_cpu():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(300, 1 << 17, generator=generator)  # more than twice a slice
    targets = torch.arange(300) * 7
    found = []
    for device in ("cpu", "cuda"):
        given = logits.to(device).requires_grad_()
        statistics = token_statistics(given, targets.to(device), 0.7)
        (gradient,) = torch.autograd.grad(torch.stack(statistics).sum(), given)
        found.append([each.detach().cpu() for each in (*statistics, gradient)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("way", [{}, *WAYS.values()], ids=["plain", *WAYS])
def test_updates_are_those_of_a_cpu(tmp_path, way):
    folder = small_model(tmp_path / "model")
    expected, wanted = learned(folder, "cpu")
    weights, metrics = learned(folder, "cuda", **way)
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(weight, expected[name], atol=1e-5, rtol=0, msg=name)
    for one, other in zip(metrics, wanted, strict=True):
        assert one["loss/policy"] == pytest.approx(other["loss/policy"], abs=1e-4)
        assert one["policy/grad_norm"] == pytest.approx(other["policy/grad_norm"], rel=1e-3)


def test_a_learner_goes_on_from_a_checkpoint_as_if_it_had_not_ended(tmp_path):
    folder = small_model(tmp_path / "model")
    config = run_config(learner={"lora": {"rank": 4, "dropout": 0.1}})

    def a_learner():
        learner = Learner(folder, config.learner_settings, "cuda")
        learner.begin_stage(config.learner.optimizer, 10)
        return learner

    one = a_learner()
    one.update(one.annotate(small_batch(0)))
    one.save(tmp_path / "checkpoint").result()
    other = a_learner()
    other.load_checkpoint(tmp_path / "checkpoint")
    found = []
    for learner in (one, other):
        torch.cuda.manual_seed(0)
        learner.update(learner.annotate(small_batch(1)))
        found.append(dict(learner.named_weights()))
    assert found[0].keys() == found[1].keys()
    for name, weight in found[0].items():
        torch.testing.assert_close(weight, found[1][name], atol=0, rtol=0, msg=name)
