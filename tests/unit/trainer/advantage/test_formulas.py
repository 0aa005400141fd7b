"""The formulas on numbers worked out by hand, and beside TRL's."""

import numpy as np
import pytest
import torch

from trainer.advantage.dr_grpo import dr_grpo
from trainer.advantage.gae import gae
from trainer.advantage.grpo import grpo
from trainer.advantage.reinforce import reinforce_pp
from trainer.advantage.return_to_go import return_to_go
from trainer.advantage.rloo import rloo
from trainer.advantage.whitening import whiten


def test_grpo_divides_by_the_sample_deviation_of_the_group() -> None:
    # Mean 1, deviations from it -1, 0, 1: sample variance (1 + 0 + 1) / 2 = 1.
    assert grpo(np.array([0.0, 1.0, 2.0]), epsilon=0.0) == pytest.approx([-1, 0, 1])
    assert grpo(np.array([0.0, 1.0, 2.0]), epsilon=1.0) == pytest.approx([-0.5, 0, 0.5])


@pytest.mark.parametrize("rewards", [[0.7], [0.1, 0.1, 0.1], [0.0, 0.0]], ids=["one", "tenths", "zeros"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-4])
def test_grpo_finds_no_signal_in_a_group_of_one_or_of_equals(rewards: list[float], epsilon: float) -> None:
    assert grpo(np.array(rewards), epsilon).tolist() == [0.0] * len(rewards)


def test_dr_grpo_only_subtracts_the_mean() -> None:
    assert dr_grpo(np.array([0.0, 1.0, 5.0])) == pytest.approx([-2, -1, 3])


def test_rloo_compares_with_the_mean_of_the_others() -> None:
    assert rloo(np.array([0.0, 1.0, 5.0])) == pytest.approx([-3, -1.5, 4.5])
    assert rloo(np.array([3.0])).tolist() == [0.0]


def test_a_return_is_what_is_still_to_come() -> None:
    assert return_to_go(np.array([1.0, 2.0, 4.0]), 1.0) == pytest.approx([7, 6, 4])
    assert return_to_go(np.array([1.0, 2.0, 4.0]), 0.5) == pytest.approx([1 + 1 + 1, 2 + 2, 4])
    assert return_to_go(np.zeros(0), 0.5).tolist() == []


def test_whitening_is_over_all_entries_of_all_arrays() -> None:
    first, second = whiten([np.array([1.0, 1.0]), np.array([4.0])])
    # Mean 2, population variance (1 + 1 + 4) / 3 = 2.
    assert first == pytest.approx([-(2**-0.5)] * 2, abs=1e-6)
    assert second == pytest.approx([2**0.5], abs=1e-6)


@pytest.mark.parametrize("arrays", [[], [np.zeros(0)]], ids=["no array", "empty array"])
def test_whitening_nothing_gives_nothing(arrays: list[np.ndarray]) -> None:
    assert [array.tolist() for array in whiten(arrays)] == [array.tolist() for array in arrays]


def test_whitening_equals_gives_zeros() -> None:
    assert whiten([np.full(3, 0.1)])[0].tolist() == [0, 0, 0]
    assert whiten([np.array([0.7, 0.70000005])])[0].tolist() == [0, 0]


def test_reinforce_pp_whitens_returns_minus_baselines() -> None:
    first, second = reinforce_pp([np.array([0.0, 3.0]), np.array([1.0])], [np.ones(2), np.zeros(1)])
    # Returns 3, 3 and 1; minus baselines 2, 2 and 1; mean 5/3, variance 2/9.
    deviation = (2 / 9) ** 0.5
    assert first == pytest.approx([(1 / 3) / deviation] * 2, abs=1e-6)
    assert second == pytest.approx([(-2 / 3) / deviation], abs=1e-6)


def test_gae_of_three_steps_by_hand() -> None:
    advantages = gae(np.array([0.0, 0.0, 1.0]), np.array([0.5, 0.25, 0.75]), gamma=0.5, lam=0.5)
    third = 1 - 0.75
    second = 0.5 * 0.75 - 0.25 + 0.25 * third
    first = 0.5 * 0.25 - 0.5 + 0.25 * second
    assert advantages == pytest.approx([first, second, third])


def test_gae_with_lambda_one_is_return_minus_value() -> None:
    rewards, values = np.array([0.1, -0.2, 1.0]), np.array([0.3, 0.9, -0.4])
    assert gae(rewards, values, 0.9, 1.0) == pytest.approx(return_to_go(rewards, 0.9) - values)


def test_gae_with_lambda_zero_is_the_one_step_error() -> None:
    advantages = gae(np.array([1.0, 2.0]), np.array([0.5, 0.25]), gamma=1.0, lam=0.0, following=3.0)
    assert advantages == pytest.approx([1 + 0.25 - 0.5, 2 + 3 - 0.25])


def test_gae_of_no_step_is_empty() -> None:
    assert gae(np.zeros(0), np.zeros(0), 1.0, 0.95).tolist() == []


def test_grpo_and_rloo_agree_with_torch_on_random_rewards() -> None:
    rewards = torch.rand(6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    centred = rewards - rewards.mean()
    assert grpo(rewards.numpy(), 1e-4) == pytest.approx((centred / (rewards.std() + 1e-4)).numpy())
    assert rloo(rewards.numpy()) == pytest.approx((centred * 6 / 5).numpy())
