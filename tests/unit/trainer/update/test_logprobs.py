import pytest
import torch

from trainer.update.logprobs import token_statistics


def plain(logits, targets):
    logp = logits.float().log_softmax(-1)
    return logp.gather(-1, targets[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


@pytest.fixture(params=[(7, 11), (700, 4096)], ids=["one slice", "several slices"])
def case(request):
    rows, words = request.param
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, words, generator=generator) * 3
    return logits, torch.randint(0, words, (rows,), generator=generator)


def test_they_are_those_of_the_full_distribution(case):
    for got, expected in zip(token_statistics(*case), plain(*case), strict=True):
        torch.testing.assert_close(got, expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (0.7, -0.3)])
def test_gradients_are_those_of_autograd(case, weights):
    logits, targets = case
    gradients = []
    for function in (token_statistics, plain):
        leaf = logits.clone().requires_grad_()
        logprobs, entropy = function(leaf, targets)
        slopes = torch.linspace(-1, 1, len(targets))
        loss = (weights[0] * slopes * logprobs).sum() + (weights[1] * slopes * entropy).sum()
        loss.backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)


def test_the_entropy_may_be_left_alone(case):
    logits, targets = case
    leaf = logits.clone().requires_grad_()
    token_statistics(leaf, targets)[0].sum().backward()
    other = logits.clone().requires_grad_()
    plain(other, targets)[0].sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad, atol=1e-5, rtol=1e-4)


def test_half_precision_logits_are_summed_in_float32(case):
    logits, targets = case
    halves = logits.bfloat16().requires_grad_()
    logprobs, _ = token_statistics(halves, targets)
    assert logprobs.dtype == torch.float32
    torch.testing.assert_close(logprobs, plain(halves, targets)[0], atol=2e-5, rtol=1e-5)
    logprobs.sum().backward()
    assert halves.grad.dtype == torch.bfloat16
