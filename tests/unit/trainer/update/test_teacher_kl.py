import pytest
import torch

from tests.harness.trl_formulas import trl_reverse_kl
from trainer.update.teacher_kl import reverse_kl


def plain(logits, teacher, temperature=1.0):
    logp = (logits / temperature).log_softmax(-1)
    return (logp.exp() * (logp - teacher.log_softmax(-1))).sum(-1)


@pytest.fixture(params=[(7, 11), (700, 4096)], ids=["one slice", "several slices"])
def pair(request):
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(*request.param, generator=generator) * 3 for _ in range(2))


def gradient(function, logits, *given):
    leaf = logits.clone().requires_grad_()
    values = function(leaf, *given)
    (torch.linspace(-1, 1, len(values)) * values).sum().backward()
    return leaf.grad


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
def test_it_is_that_of_the_full_distributions_with_its_gradient(pair, temperature):
    torch.testing.assert_close(
        reverse_kl(*pair, temperature), plain(*pair, temperature), atol=2e-5, rtol=1e-5
    )
    torch.testing.assert_close(
        gradient(reverse_kl, *pair, temperature), gradient(plain, *pair, temperature), atol=1e-5, rtol=1e-4
    )


def test_it_is_the_reverse_kl_of_trl(pair):
    torch.testing.assert_close(reverse_kl(*pair), trl_reverse_kl(*pair).sum(-1), atol=2e-5, rtol=1e-5)


def test_a_policy_that_is_the_teacher_has_none_and_stays(pair):
    logits, _ = pair
    assert reverse_kl(logits, logits).abs().max() < 1e-5
    assert gradient(reverse_kl, logits, logits).abs().max() < 1e-5


def test_its_gradient_is_the_mean_of_that_of_sampled_words():
    """The estimate by one sampled word has the same expectation, and noise beside it."""
    generator = torch.Generator().manual_seed(1)
    logits, teacher = (torch.randn(1, 5, generator=generator) for _ in range(2))
    p = logits.softmax(-1)[0]
    gaps = (logits.log_softmax(-1) - teacher.log_softmax(-1))[0]
    sampled = torch.zeros(5)
    for word in range(5):
        leaf = logits.clone().requires_grad_()
        (gaps[word] * leaf.log_softmax(-1)[0, word]).backward()
        sampled += p[word] * leaf.grad[0]
    leaf = logits.clone().requires_grad_()
    reverse_kl(leaf, teacher).sum().backward()
    torch.testing.assert_close(leaf.grad[0], sampled)


def test_words_that_one_model_lacks_are_left_out_of_both(pair):
    logits, teacher = pair
    words = logits.shape[1] - 4
    expected = plain(logits[:, :words], teacher[:, :words])
    for mine, others in ((logits[:, :words], teacher), (logits, teacher[:, :words])):
        torch.testing.assert_close(reverse_kl(mine, others), expected, atol=2e-5, rtol=1e-5)
    unused = gradient(reverse_kl, logits, teacher[:, :words])[:, words:]
    assert not unused.any()


def test_words_that_cannot_be_said_count_for_nothing():
    logits = torch.tensor([[1.0, -torch.inf, 0.0]])
    teacher = torch.tensor([[0.5, 2.0, -1.0]])
    kl = reverse_kl(logits, teacher)
    assert kl.isfinite().all()
    assert gradient(reverse_kl, logits, teacher).isfinite().all()
    assert reverse_kl(teacher, logits).isinf().all()
