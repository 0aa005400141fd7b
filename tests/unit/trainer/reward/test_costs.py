"""Costs of turns, from the measurements that their steps report."""

import pytest

from tests.harness.episodes_played import played
from trainer.reward.bounds import GREATEST
from trainer.reward.costs import costs_of
from trainer.rollout.samples import samples_of

EPISODE = played(
    {"actions": 2.0, "succeeded": 1.0, "well_formed": 1.0, "call.rm": 1.0},
    {"actions": 0.0, "succeeded": 0.0, "well_formed": 0.0, "env.fine": 2.5},
    tokens=[3, 2],
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("turns", (1, 1)),
        ("tokens", (3, 2)),
        ("failed_actions", (1, 0)),
        ("malformed_turns", (0, 1)),
        ("call.rm", (1, 0)),
        ("env.fine", (0, 2.5)),
        ("call.ls", (0, 0)),
    ],
)
def test_each_cost_is_counted_turn_by_turn(name, expected) -> None:
    assert costs_of(EPISODE, name) == expected


def test_a_cost_that_no_sample_can_hold_is_bounded() -> None:
    assert costs_of(played({"env.fine": 1e200}), "env.fine") == (GREATEST,)


def test_samples_have_the_cost_of_a_turn_at_its_last_token() -> None:
    (sample,) = samples_of(EPISODE, [0.0, 1.0], 0, {"tokens": costs_of(EPISODE, "tokens")})
    assert sample.costs["tokens"].tolist() == [0, 0, 0, 3, 0, 2]
