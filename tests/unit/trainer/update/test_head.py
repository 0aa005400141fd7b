import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.harness.learning import WORDS, load_model, run_config, small_model
from trainer.errors import ConfigError
from trainer.update.head import chunked_statistics
from trainer.update.packing import Row, lay_out

CPU = torch.device("cpu")
TOKENS, HIDDEN, VOCABULARY = 50, 16, 300


@pytest.fixture
def case():
    torch.manual_seed(0)
    return nn.Linear(HIDDEN, VOCABULARY), torch.randn(TOKENS, HIDDEN), torch.randint(VOCABULARY, (TOKENS,))


def learned(case, rows, temperature=0.8):
    """Both statistics, and the gradients of a loss of both."""
    head, hidden, targets = case
    leaf = hidden.clone().requires_grad_()
    head.zero_grad()
    logprobs, entropy = chunked_statistics(head, leaf, targets, temperature, rows)
    slopes = torch.linspace(-1, 1, TOKENS)
    ((slopes * logprobs).sum() + 0.1 * (slopes * entropy).sum()).backward()
    return logprobs, entropy, leaf.grad, head.weight.grad.clone(), head.bias.grad.clone()


@pytest.mark.parametrize("rows", [1, 7, 25, 49])
def test_chunks_give_the_numbers_and_gradients_of_the_whole(case, rows):
    for one, other in zip(learned(case, rows), learned(case, TOKENS), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


class Counter(TorchDispatchMode):
    """The most elements of tensors as wide as the vocabulary that are alive at once."""

    def __init__(self, words):
        super().__init__()
        self.words, self.alive, self.most = words, {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(each, torch.Tensor) and each.ndim == 2 and each.shape[1] == self.words:
                storage = each.untyped_storage()
                if storage.data_ptr() not in self.alive:
                    self.alive[storage.data_ptr()] = storage.nbytes() // each.itemsize
                    weakref.finalize(storage, self.alive.pop, storage.data_ptr(), None)
                self.most = max(self.most, sum(self.alive.values()))
        return found


def test_the_logits_of_all_tokens_are_never_there_at_once(case):
    most = {}
    for rows in (5, TOKENS):
        with Counter(VOCABULARY) as counter:
            learned(case, rows)
        most[rows] = counter.most
    assert most[TOKENS] >= 2 * TOKENS * VOCABULARY
    assert most[5] <= most[TOKENS] / 5


def rows_of(*lengths):
    rng = np.random.default_rng(0)
    return [Row(rng.integers(0, WORDS, n).astype(np.int32), np.arange(n) > 0) for n in lengths]


@pytest.mark.parametrize("lora", [None, {"rank": 2}])
def test_a_model_learns_alike_however_many_logits_it_holds(tmp_path, lora):
    folder = small_model(tmp_path / "model")
    found = []
    for tokens in (4, 1000):
        core = load_model(
            folder, run_config(learner={"logits_tokens": tokens, "lora": lora}).learner_settings
        )
        outputs = core(lay_out(rows_of(9, 14, 2), (0, 1, 2), "padded", CPU))
        (outputs.logprobs_K.sum() + outputs.entropy_K.sum()).backward()
        gradients = [each.grad for each in core.parameters() if each.grad is not None]
        found.append((outputs.logprobs_K, outputs.entropy_K, *gradients))
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_logits_that_are_changed_in_an_unknown_way_are_refused(tmp_path):
    core = load_model(small_model(tmp_path / "model"), run_config().learner_settings)
    original = core.language.forward

    def forward(**given):
        outputs = original(**given)
        outputs.logits = outputs.logits * 3
        return outputs

    core.language.forward = forward
    with pytest.raises(ConfigError, match="type qwen2 transforms its logits"):
        core(lay_out(rows_of(9), (0,), "padded", CPU))
