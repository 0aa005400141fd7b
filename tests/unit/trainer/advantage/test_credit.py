"""Advantages of whole batches: who shares a baseline, and which tokens get what."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.harness.samples import batch, outcomes, sample
from trainer.advantage import credit
from trainer.config.algorithm import (
    AlgorithmConfig,
    DrGrpo,
    Gae,
    Grpo,
    KlConfig,
    ReinforcePlusPlus,
    ReturnToGo,
    Rloo,
)
from trainer.types import Batch, Objective, Sample

DR = AlgorithmConfig(advantage=DrGrpo())
ALL = [Gae(), Gae(level="turn"), Grpo(), DrGrpo(), Rloo(), ReinforcePlusPlus(), ReturnToGo()]
each_algorithm = pytest.mark.parametrize("algorithm", ALL, ids=lambda each: f"{each.kind}")


def advantages(given: Batch) -> list[list[float]]:
    return [each.advantages_T.tolist() for each in given.samples]


def test_fine_tuning_gets_one_on_every_token_of_the_mask() -> None:
    done = credit(batch(sample("0.0", [-1, 0, -1, 1], [0] * 4), objective=Objective.SFT), DR)
    assert advantages(done) == [[0, 1, 0, 1]]
    assert done.samples[0].returns_T is None


def test_an_outcome_is_spread_over_the_sampled_tokens_of_its_trajectory() -> None:
    done = credit(batch(*outcomes(0.0, 1.0)), DR)
    assert advantages(done) == [[0, -0.5, -0.5], [0, 0.5, 0.5]]
    assert all(each.advantages_T.dtype == np.float32 for each in done.samples)


def test_groups_do_not_share_a_baseline() -> None:
    done = credit(batch(*outcomes(0.0, 1.0), *outcomes(5.0, 7.0, group=1)), DR)
    assert [row[1] for row in advantages(done)] == [-0.5, 0.5, -1, 1]


def shaped(turns: int, index: int) -> Sample:
    """An episode of reward 1.1, of which 0.1 is divided over its turns."""
    rewards = [0.1 / turns] * turns
    return sample(f"0.{index}", range(turns), [*rewards[:-1], 1.1 - sum(rewards[:-1])])


BY_EPISODE = (Grpo(epsilon=0.0), DrGrpo(), Rloo())
BY_TURN = (ReinforcePlusPlus(group_baseline=True), ReturnToGo(), ReturnToGo(baseline="group"))


@pytest.mark.parametrize(
    ("algorithm", "episodes"),
    [
        *((algorithm, [shaped(turns, turns) for turns in (3, 5, 6, 7)]) for algorithm in BY_EPISODE),
        *((algorithm, outcomes(1.1, 1.1, 1.1, 1.1)) for algorithm in BY_EPISODE + BY_TURN),
    ],
)
@pytest.mark.parametrize("by_source", ["none", "scale"])
def test_rewards_that_differ_by_rounding_alone_are_no_signal(
    algorithm: object, episodes: Sequence[Sample], by_source: str
) -> None:
    done = credit(batch(*episodes), AlgorithmConfig(advantage=algorithm, by_source=by_source))
    assert not any(each.advantages_T.any() for each in done.samples)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (Grpo(epsilon=0.0), [-1, 0, 1]),
        (Rloo(), [-1.5, 0, 1.5]),
        (ReturnToGo(), [-1.5, 0, 1.5]),
        (ReturnToGo(baseline="group"), [-1, 0, 1]),
        (ReturnToGo(baseline="none"), [0, 1, 2]),
        (ReinforcePlusPlus(group_baseline=True), [-(1.5**0.5), 0, 1.5**0.5]),
    ],
    ids=["grpo", "rloo", "return to go", "group baseline", "no baseline", "reinforce++"],
)
def test_each_algorithm_on_the_same_group(algorithm: object, expected: list[float]) -> None:
    done = credit(batch(*outcomes(0.0, 1.0, 2.0)), AlgorithmConfig(advantage=algorithm))
    assert [row[1] for row in advantages(done)] == pytest.approx(expected, abs=1e-6)


def test_segments_of_a_trajectory_share_one_total_and_one_place_in_the_baseline() -> None:
    first = sample("0.0", [-1, 0, 0], [0, 0, 0.5])
    second = sample("0.0", [-1, -1, 1], [0, 0, 1.0], segment=1)
    other = sample("0.1", [-1, 0], [0, 0.5])
    done = credit(batch(first, second, other), DR)
    # Totals 1.5 and 0.5.
    assert advantages(done) == [[0, 0.5, 0.5], [0, 0, 0.5], [0, -0.5]]


@pytest.mark.parametrize("algorithm", [ReturnToGo(baseline="none"), Gae(lam=1.0, whiten=False)])
def test_turns_of_interleaved_segments_get_what_was_earned_after_them(algorithm: object) -> None:
    values = [0.0] * 4 if isinstance(algorithm, Gae) else None
    inner = sample("0.0", [-1, 1, 1, 2], [0, 0, 0, 0.5], values=values)
    outer = sample("0.0", [-1, 0, -1, 3], [0, 1.0, 0, 0], segment=1, values=values)
    done = credit(batch(inner, outer), AlgorithmConfig(advantage=algorithm))
    assert advantages(done) == [[0, 0.5, 0.5, 0.5], [0, 1.5, 0, 0]]


def test_a_trajectory_of_weight_zero_is_in_no_baseline() -> None:
    broken = sample("0.2", [-1, 0], [0, -9.0], weight=0.0)
    done = credit(batch(*outcomes(0.0, 1.0), broken), DR)
    assert [row[1] for row in advantages(done)] == [-0.5, 0.5, 0]


def test_cut_off_trajectories_stay_in_the_baseline_and_leave_the_loss() -> None:
    cut = sample("0.2", [-1, 0], [0, 2.0], truncated=True)
    done = credit(batch(*outcomes(0.0, 1.0), cut), DR.model_copy(update={"overlong": "mask"}))
    assert [row[1] for row in advantages(done)] == [-1, 0, 0]
    assert [each.weight for each in done.samples] == [1, 1, 0]


def test_all_segments_of_a_cut_off_trajectory_leave_the_loss() -> None:
    first = sample("0.0", [-1, 0], [0, 0])
    second = sample("0.0", [-1, 1], [0, 1.0], segment=1, truncated=True)
    done = credit(batch(first, second), DR.model_copy(update={"overlong": "mask"}))
    assert [each.weight for each in done.samples] == [0, 0]


def test_cut_off_trajectories_are_trained_on_by_default() -> None:
    done = credit(batch(*outcomes(0.0), sample("0.1", [-1, 0], [0, 2.0], truncated=True)), DR)
    assert [row[1] for row in advantages(done)] == [-1, 1]
    assert [each.weight for each in done.samples] == [1, 1]


@pytest.mark.parametrize(
    "algorithm", [ReturnToGo(), ReinforcePlusPlus(group_baseline=True)], ids=["rtg", "rpp"]
)
def test_equal_episodes_that_earn_step_by_step_get_no_advantage_at_any_turn(algorithm: object) -> None:
    turns, rewards = [-1, 0, 1, 2, 3], [0, 0.25, 0.25, 0.25, 0.25]
    done = credit(
        batch(sample("0.0", turns, rewards), sample("0.1", turns, rewards)),
        AlgorithmConfig(advantage=algorithm),
    )
    assert np.allclose(advantages(done), 0, atol=1e-6)


def test_a_turn_is_compared_with_the_same_turn_of_the_others_and_with_the_last_of_those_that_are_over() -> (
    None
):
    short = sample("0.0", [-1, 0], [0, 3.0])
    long = sample("0.1", [-1, 0, 1, 2], [0, 1.0, 0, 4.0])
    other = sample("0.2", [-1, 0, 1], [0, 0, 2.0])
    done = credit(batch(short, long, other), AlgorithmConfig(advantage=ReturnToGo()))
    # Returns from turn 0, 1, 2 on: 3, (3, 3); 5, 4, 4; 2, 2, (2).
    expected = [[0, 3 - 3.5], [0, 5 - 2.5, 4 - 2.5, 4 - 2.5], [0, 2 - 4, 2 - 3.5]]
    assert [row == pytest.approx(want) for row, want in zip(advantages(done), expected, strict=True)] == [
        True
    ] * 3


def test_a_group_of_one_is_its_own_baseline_at_every_turn() -> None:
    mine = sample("0.0", [-1, 0, 1], [0, 1.0, 4.0])
    done = credit(batch(mine), AlgorithmConfig(advantage=ReturnToGo()))
    assert advantages(done) == [[0, 0, 0]]


def test_return_to_go_credits_each_turn_with_what_follows() -> None:
    mine = sample("0.0", [-1, 0, 0, -1, 1, 1], [0, 0, 1, 0, 0, 4])
    done = credit(batch(mine), AlgorithmConfig(advantage=ReturnToGo(gamma=0.5, baseline="none")))
    assert advantages(done) == [[0, 3, 3, 0, 4, 4]]


def test_return_to_go_subtracts_the_mean_return_of_the_group_or_the_batch() -> None:
    rows = (*outcomes(0.0, 2.0), *outcomes(4.0, 6.0, group=1))
    group = credit(batch(*rows), AlgorithmConfig(advantage=ReturnToGo(baseline="group")))
    whole = credit(batch(*rows), AlgorithmConfig(advantage=ReturnToGo(baseline="batch")))
    assert [row[1] for row in advantages(group)] == [-1, 1, -1, 1]
    assert [row[1] for row in advantages(whole)] == [-3, -1, 1, 3]


def test_token_gae_skips_what_was_not_sampled() -> None:
    mine = sample("0.0", [-1, 0, -1, 1], [0, 0, 0, 1], values=[9, 0.5, 9, 0.25])
    config = AlgorithmConfig(advantage=Gae(gamma=1.0, lam=0.5, whiten=False))
    (done,) = credit(batch(mine), config).samples
    last = 1 - 0.25
    first = 0.25 - 0.5 + 0.5 * last
    assert done.advantages_T == pytest.approx([0, first, 0, last])
    assert done.returns_T == pytest.approx([0, first + 0.5, 0, last + 0.25])


def test_turn_gae_takes_a_turn_for_one_step() -> None:
    mine = sample("0.0", [-1, 0, 0, -1, 1, 1], [0, 0, 0.5, 0, 0, 1], values=[9, 0.5, 9, 9, 0.25, 9])
    config = AlgorithmConfig(advantage=Gae(level="turn", gamma=1.0, lam=0.5, whiten=False))
    (done,) = credit(batch(mine), config).samples
    last = 1 - 0.25
    first = 0.5 + 0.25 - 0.5 + 0.5 * last
    assert done.advantages_T == pytest.approx([0, first, first, 0, last, last])
    assert done.returns_T == pytest.approx([0, first + 0.5, first + 0.5, 0, last + 0.25, last + 0.25])


def test_gae_runs_on_over_segments_whatever_their_order_in_the_batch() -> None:
    config = AlgorithmConfig(advantage=Gae(gamma=1.0, lam=1.0, whiten=False))
    first = sample("0.0", [-1, 0], [0, 0], values=[0, 0.5])
    second = sample("0.0", [-1, 1], [0, 1], segment=1, values=[0, 0.75])
    done = credit(batch(second, first), config)
    assert advantages(done) == [[0, 0.25], [0, 0.5]]


def test_an_episode_that_was_cut_off_ends_with_its_grade_unless_it_is_told_to_go_on() -> None:
    mine = sample("0.0", [-1, 0, 0], [0, 0, 1], values=[0, 0.5, 0.25], truncated=True)
    ends = credit(batch(mine), AlgorithmConfig(advantage=Gae(whiten=False, lam=0.0)))
    goes_on = credit(batch(mine), AlgorithmConfig(advantage=Gae(whiten=False, lam=0.0, bootstrap=True)))
    assert advantages(ends) == [[0, -0.25, 0.75]]
    assert advantages(goes_on) == [[0, -0.25, 1.0]]


def test_an_episode_that_ended_by_itself_never_goes_on() -> None:
    mine = sample("0.0", [-1, 0], [0, 1], values=[0, 0.25])
    done = credit(batch(mine), AlgorithmConfig(advantage=Gae(whiten=False, bootstrap=True)))
    assert advantages(done) == [[0, 0.75]]


def test_a_reward_beside_the_sampled_tokens_belongs_to_the_one_before_it() -> None:
    mine = sample("0.0", [-1, 0, -1, 1, -1], [0, 0, 2, 0, 4])
    done = credit(batch(mine), AlgorithmConfig(advantage=ReturnToGo(gamma=0.5, baseline="none")))
    assert advantages(done) == [[0, 4, 0, 4, 0]]


def test_gae_whitens_over_the_tokens_that_are_trained_on() -> None:
    kept = sample("0.0", [-1, 0, 0], [0, 0, 1], values=[0, 0.3, 0.6])
    out = sample("0.1", [-1, 0], [0, 50], values=[0, 0], weight=0.0)
    done = credit(batch(kept, out), AlgorithmConfig(advantage=Gae()))
    white = done.samples[0].advantages_T[1:]
    assert white.mean() == pytest.approx(0, abs=1e-6)
    assert white.std() == pytest.approx(1, abs=1e-5)
    assert advantages(done)[1] == [0, 0]


def test_a_kl_in_the_reward_lowers_the_total_of_its_trajectory() -> None:
    config = DR.model_copy(update={"kl": KlConfig(place="reward", estimator="k1")})
    far = sample("0.0", [-1, 0, 0], [0, 0, 1], old=[7, -1, -1], ref=[0, -2, -1.5])
    near = sample("0.1", [-1, 0, 0], [0, 0, 1], old=[0, -1, -1], ref=[0, -1, -1])
    done = credit(batch(far, near), config, kl_coefficient=0.2)
    # 1 - 0.2 (1 + 0.5) = 0.7 beside 1.
    assert advantages(done) == [pytest.approx([0, -0.15, -0.15]), pytest.approx([0, 0.15, 0.15])]


def test_a_kl_in_the_reward_needs_the_reference() -> None:
    config = DR.model_copy(update={"kl": KlConfig(place="reward")})
    with pytest.raises(ValueError, match=r"0\.0 lacks log-probabilities"):
        credit(batch(*outcomes(0.0, 1.0)), config, 0.1)


def test_gae_needs_the_critic() -> None:
    with pytest.raises(ValueError, match="critic's values"):
        credit(batch(*outcomes(0.0, 1.0)), AlgorithmConfig(advantage=Gae()))


def test_facts_tell_how_much_the_critic_explains() -> None:
    rows = [
        sample(f"0.{index}", [-1, 0], [0, reward], values=[0, value])
        for index, (reward, value) in enumerate([(0.0, 0.1), (1.0, 0.9), (0.0, 0.1), (1.0, 0.9)])
    ]
    done = credit(batch(*rows), AlgorithmConfig(advantage=Gae(lam=1.0)))
    # Returns vary by 0.25, what is left of them by 0.01.
    assert done.metrics["value/explained"] == pytest.approx(1 - 0.01 / 0.25, abs=1e-5)
    assert done.metrics["advantage/std"] == pytest.approx(1, abs=1e-5)


@each_algorithm
def test_an_empty_batch_stays_empty(algorithm: object) -> None:
    assert credit(batch(), AlgorithmConfig(advantage=algorithm)).samples == ()


@each_algorithm
def test_a_sample_without_sampled_tokens_gets_nothing_and_breaks_nothing(algorithm: object) -> None:
    silent = sample("0.0", [-1, -1], [0, 0], values=[0, 0])
    other = sample("0.1", [-1, 0], [0, 1], values=[0, 0.5])
    done = credit(batch(silent, other), AlgorithmConfig(advantage=algorithm))
    assert advantages(done)[0] == [0, 0]
    assert np.isfinite(done.samples[1].advantages_T).all()


@each_algorithm
def test_the_order_of_samples_does_not_matter(algorithm: object) -> None:
    rows = [
        sample(
            f"{group}.{member}",
            [-1, 0, -1, 1],
            [0, 0.1 * member, 0, group],
            group=group,
            values=[0, 0.2, 0, 0.4],
        )
        for group in (0, 1)
        for member in range(3)
    ]
    config = AlgorithmConfig(advantage=algorithm)
    straight = {each.id: each.advantages_T for each in credit(batch(*rows), config).samples}
    turned = {each.id: each.advantages_T for each in credit(batch(*reversed(rows)), config).samples}
    for name, expected in straight.items():
        assert turned[name] == pytest.approx(expected, abs=1e-6)
