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


@pytest.mark.parametrize("temperature", [0.6, 1.7])
def test_distributions_are_those_that_were_sampled_from(case, temperature):
    logits, targets = case
    gradients = []
    for function, scaled in ((lambda z, t: token_statistics(z, t, temperature), 1.0), (plain, temperature)):
        leaf = logits.clone().requires_grad_()
        logprobs, entropy = function(leaf / scaled, targets)
        (logprobs.sum() - 0.5 * entropy.sum()).backward()
        gradients.append((logprobs.detach(), entropy.detach(), leaf.grad))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def test_words_that_cannot_be_chosen_leave_entropy_and_gradients_finite(case):
    logits, targets = case
    open_words = logits.shape[1] - 4
    closed = torch.nn.functional.pad(logits[:, :open_words], (0, 4), value=-torch.inf)
    gradients = []
    for given in (closed, logits[:, :open_words]):
        leaf = given.clone().requires_grad_()
        logprobs, entropy = token_statistics(leaf, targets % open_words)
        (logprobs.sum() + 0.3 * entropy.sum()).backward()
        gradients.append((logprobs.detach(), entropy.detach(), leaf.grad[:, :open_words]))
        assert torch.isfinite(leaf.grad).all()
        assert (leaf.grad[:, open_words:] == 0).all()
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_half_precision_logits_are_summed_in_float32(case):
    logits, targets = case
    halves = logits.bfloat16().requires_grad_()
    logprobs, _ = token_statistics(halves, targets)
    assert logprobs.dtype == torch.float32
    torch.testing.assert_close(logprobs, plain(halves, targets)[0], atol=2e-5, rtol=1e-5)
    logprobs.sum().backward()
    assert halves.grad.dtype == torch.bfloat16
