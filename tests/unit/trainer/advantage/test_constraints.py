"""Costs with multipliers change rewards; multipliers follow mean costs."""

from dataclasses import replace

import numpy as np
import pytest

from tests.harness.samples import batch, outcomes, sample
from trainer.advantage import credit
from trainer.config.algorithm import AlgorithmConfig


def algorithm(*constraints, kind="dr_grpo"):
    given = [{"cost": cost, "limit": limit} for cost, limit in constraints]
    return AlgorithmConfig.model_validate({"advantage": {"kind": kind}, "constraints": given})


def costly(each, **costs):
    """The sample with these costs, at its last token."""
    placed = {name: np.array([0.0] * (len(each) - 1) + [cost], np.float32) for name, cost in costs.items()}
    return replace(each, costs=placed)


def advantages(done):
    return [float(each.advantages_T[-1]) for each in done.samples]


def test_the_reward_is_the_return_minus_costs_over_one_plus_all_multipliers() -> None:
    first, second = outcomes(1.0, 0.0)
    rows = batch(costly(first, turns=4.0, tokens=10.0), costly(second, turns=1.0, tokens=20.0))
    done = credit(rows, algorithm(("turns", 2), ("tokens", 5)), multipliers={"turns": 0.5, "tokens": 0.1})
    # (1 - 2 - 1) / 1.6 = -1.25 and (0 - 0.5 - 2) / 1.6 = -1.5625, minus their mean.
    assert advantages(done) == pytest.approx([0.15625, -0.15625])
    assert done.metrics["cost/turns"] == 2.5
    assert done.metrics["cost/tokens"] == 15.0


def test_a_multiplier_of_zero_leaves_the_reward_as_it_is() -> None:
    rows = [costly(each, turns=cost) for each, cost in zip(outcomes(1.0, 0.0), (4.0, 1.0), strict=True)]
    done = credit(batch(*rows), algorithm(("turns", 2)))
    assert advantages(done) == [0.5, -0.5]


def test_a_cost_is_charged_to_the_turn_that_it_arises_in() -> None:
    two_turns = sample("0.0", [-1, 0, 1], [0, 0, 1.0])
    two_turns = replace(two_turns, costs={"turns": np.array([0, 2, 0], np.float32)})
    settings = AlgorithmConfig.model_validate(
        {
            "advantage": {"kind": "return_to_go", "baseline": "none"},
            "constraints": [{"cost": "turns", "limit": 1}],
        }
    )
    done = credit(batch(two_turns), settings, multipliers={"turns": 1.0})
    assert done.samples[0].advantages_T.tolist() == [0, -0.5, 0.5]


def test_episodes_without_a_score_are_not_in_the_mean_cost() -> None:
    rows = [costly(each, turns=2.0) for each in outcomes(1.0, 0.0)]
    rows.append(replace(costly(outcomes(0.0, first=2)[0], turns=50.0), weight=0.0))
    assert credit(batch(*rows), algorithm(("turns", 1))).metrics["cost/turns"] == 2.0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([{"cost": "money", "limit": 1}], "should match pattern"),
        ([{"cost": "turns", "limit": -1}], "greater than or equal to 0"),
        (
            [{"cost": "turns", "limit": 1}, {"cost": "turns", "limit": 2}],
            "turns has two constraints",
        ),
    ],
)
def test_constraints_that_mean_nothing_are_refused(given, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        AlgorithmConfig.model_validate({"constraints": given})


def test_replayed_groups_are_charged_and_are_not_in_the_mean_cost() -> None:
    fresh = [costly(each, turns=2.0) for each in outcomes(1.0, 0.0)]
    old = [replace(costly(each, turns=50.0), group=7) for each in outcomes(1.0, 0.0, first=2)]
    rows = replace(batch(*fresh, *old), replayed=frozenset({7}))
    done = credit(rows, algorithm(("turns", 1)), multipliers={"turns": 1.0})
    assert done.metrics["cost/turns"] == 2.0
    assert advantages(done) == pytest.approx([0.25, -0.25] * 2)


def test_a_batch_without_a_fresh_episode_measures_no_cost() -> None:
    old = replace(batch(*(costly(each, turns=50.0) for each in outcomes(1.0, 0.0))), replayed=frozenset({0}))
    assert "cost/turns" not in credit(old, algorithm(("turns", 1))).metrics
