"""KL estimators and the coefficient that follows a target."""

import math

import pytest
import torch

from tests.harness.samples import sample
from trainer.config.algorithm import KlConfig
from trainer.update.objective import AdaptiveCoefficient, kl_estimate, sequence_kl


def test_estimators_by_hand() -> None:
    now, ref = torch.tensor([-1.0, -3.0]), torch.tensor([-2.0, -1.0])
    assert kl_estimate(now, ref, "k1").tolist() == [1, -2]
    assert kl_estimate(now, ref, "k2").tolist() == [0.5, 2]
    assert kl_estimate(now, ref, "k3").tolist() == pytest.approx([math.exp(-1), math.exp(2) - 3])


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_estimators_without_bias_have_the_divergence_as_their_mean(estimator: str) -> None:
    p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.2, 0.6])
    divergence = (p * (p / q).log()).sum()
    torch.testing.assert_close((p * kl_estimate(p.log(), q.log(), estimator)).sum(), divergence)


def test_k2_has_the_gradient_of_the_divergence_and_k1_has_none() -> None:
    logits = torch.tensor([0.3, -0.2, 0.5], requires_grad=True)
    q = torch.tensor([0.2, 0.2, 0.6])
    logs = logits.log_softmax(-1)
    (true,) = torch.autograd.grad((logs.exp() * (logs - q.log())).sum(), logits, retain_graph=True)
    sampled = logs.exp().detach()
    (by_k2,) = torch.autograd.grad(
        (sampled * kl_estimate(logs, q.log(), "k2")).sum(), logits, retain_graph=True
    )
    (by_k1,) = torch.autograd.grad((sampled * kl_estimate(logs, q.log(), "k1")).sum(), logits)
    torch.testing.assert_close(by_k2, true)
    torch.testing.assert_close(by_k1, torch.zeros(3), atol=1e-6, rtol=0)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_policies_far_apart_have_a_finite_estimate(estimator: str) -> None:
    far = torch.tensor([-1000.0, 0.0, -math.inf])
    assert kl_estimate(far, far.flip(0), estimator).isfinite().all()


def test_the_coefficient_grows_when_the_policy_went_too_far_and_shrinks_when_it_did_not() -> None:
    coefficient = AdaptiveCoefficient(0.1, target=6.0, horizon=1000)
    # The error 6.6 / 6 - 1 = 0.1; and beyond 0.2 it is cut.
    assert coefficient.after(6.6, 500).value == pytest.approx(0.1 * (1 + 0.1 * 0.5))
    assert coefficient.after(60.0, 500).value == pytest.approx(0.1 * (1 + 0.2 * 0.5))
    assert coefficient.after(0.0, 500).value == pytest.approx(0.1 * (1 - 0.2 * 0.5))


def test_a_batch_beyond_the_horizon_changes_the_coefficient_as_one_of_the_horizon_does() -> None:
    coefficient = AdaptiveCoefficient(0.1, target=6.0, horizon=10)
    assert coefficient.after(0.0, 1000).value == pytest.approx(0.1 * (1 - 0.2))
    assert coefficient.after(60.0, 1000).value == pytest.approx(0.1 * (1 + 0.2))


def test_without_a_target_the_coefficient_stays() -> None:
    fixed = AdaptiveCoefficient.of(KlConfig(place="loss", coefficient=0.3))
    assert fixed.after(100.0, 100).value == 0.3


def test_k1_in_the_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="use k2 or k3"):
        KlConfig(place="loss", estimator="k1")


def test_without_a_place_there_is_no_kl() -> None:
    assert AdaptiveCoefficient.of(KlConfig(coefficient=0.3)).value == 0


def test_the_kl_of_sequences_is_a_mean_of_sums_over_those_that_count() -> None:
    rows = [
        sample("0.0", [-1, 0, 0], [0, 0, 0], old=[9, -1, -1], ref=[0, -2, -2]),
        sample("0.1", [-1, 0], [0, 0], old=[0, -1], ref=[0, -1]),
        sample("0.2", [-1, 0], [0, 0], old=[0, -1], ref=[0, -9], weight=0.0),
    ]
    assert sequence_kl(rows) == pytest.approx(1.0)
    assert sequence_kl(rows[2:]) is None
    assert sequence_kl([sample("0.0", [-1, 0], [0, 1], old=[0, -1])]) is None
