"""Both sides of an episode are trained, each with its own reward and baseline."""

from dataclasses import replace

import numpy as np
import pytest

from tests.fakes.batches import broken, failure, trajectory
from trainer.advantage import credit
from trainer.advantage.constraints import mean_costs
from trainer.batches.assemble import ScoredGroup
from trainer.batches.payloads import group_from_payload, group_to_payload
from trainer.config import AlgorithmConfig, RewardConfig
from trainer.config.constraint import ConstraintConfig
from trainer.config.counterpart import PolicyCounterpart
from trainer.reward.compose import score
from trainer.types import Batch, GroupSpec, Objective, StopReason, TaskRef, TrajectoryGroup

SPEC = GroupSpec(3, TaskRef("openspiel", "train", "nim"), 0, 2, 8)


def two_sided(member, points, stop=StopReason.TERMINATED, side="opponent"):
    """An episode of two turns of each side, the counterpart's in a segment of its own."""
    own = trajectory(SPEC, member, points=points, turns=2)
    theirs = replace(trajectory(SPEC, member + 5, turns=2).segments[0], **{side: True})
    return replace(own, segments=(*own.segments, theirs), stop=stop)


def group_of(*episodes, **reward):
    config = RewardConfig(**reward)
    group = TrajectoryGroup(SPEC, episodes)
    return ScoredGroup.of(group, lambda each, turns: score(each, config, turns, 64))


def credited(group):
    batch = Batch(0, Objective.POLICY, group.samples())
    return credit(batch, AlgorithmConfig.model_validate({"advantage": {"kind": "dr_grpo"}})).samples


def test_each_side_has_the_opposite_reward_at_its_own_last_turn() -> None:
    rows = group_of(two_sided(0, 1.0), two_sided(1, 0.0)).samples()
    assert [row.trajectory_id for row in rows] == ["3.0", "3.1", "3.0/opponent", "3.1/opponent"]
    assert [float(row.rewards_T.sum()) for row in rows] == [1.0, 0.0, -1.0, 0.0]
    assert rows[2].rewards_T.tolist() == [0.0] * 7 + [-1.0]


def test_sides_have_baselines_of_their_own() -> None:
    group = group_of(two_sided(0, 1.0), two_sided(1, 0.0))
    rows = credited(group)
    assert len({row.group for row in rows}) == 2
    assert [float(row.advantages_T[-1]) for row in rows] == [0.5, -0.5, -0.5, 0.5]


def test_shaping_is_of_the_agents_turns_alone() -> None:
    group = group_of(two_sided(0, 1.0), two_sided(1, 0.0), terms={"length": 1.0})
    plain = group_of(
        *(trajectory(SPEC, member, points=1.0 - member, turns=2) for member in range(2)),
        terms={"length": 1.0},
    )
    assert [each.reward for each in group.trajectories] == [each.reward for each in plain.trajectories]
    assert [each.trajectory.reward for each in group.counterparts] == [-1.0, 0.0]


def test_a_partner_has_the_agents_reward_at_its_own_last_turn_and_a_baseline_of_its_own() -> None:
    stop = StopReason.HORIZON
    group = group_of(*(two_sided(member, 1.0 - member, stop, "partner") for member in range(2)))
    rows = credited(group)
    assert [row.trajectory_id for row in rows] == ["3.0", "3.1", "3.0/partner", "3.1/partner"]
    assert [float(row.rewards_T.sum()) for row in rows] == [1.0, 0.0, 1.0, 0.0]
    assert rows[2].rewards_T.tolist() == [0.0] * 7 + [1.0]
    assert len({row.group for row in rows}) == 2
    assert [float(row.advantages_T[-1]) for row in rows] == [0.5, -0.5, 0.5, -0.5]


@pytest.mark.parametrize("side", ["opponent", "partner"])
@pytest.mark.parametrize(
    "advantage",
    [{"kind": "gae", "whiten": False}, {"kind": "return_to_go", "gamma": 0.5, "baseline": "none"}],
    ids=["gae", "return_to_go"],
)
def test_the_agents_credit_does_not_pass_through_its_counterparts_tokens(advantage, side) -> None:
    def agents(episode):
        rows = [
            replace(row, values_T=np.zeros(len(row), np.float32), old_logprobs_T=row.logprobs_T)
            for row in group_of(episode).samples()
        ]
        config = AlgorithmConfig.model_validate({"advantage": advantage})
        return credit(Batch(0, Objective.POLICY, tuple(rows)), config).samples[0].advantages_T.tolist()

    assert agents(two_sided(0, 1.0, side=side)) == agents(trajectory(SPEC, 0, points=1.0, turns=2))


def test_an_episode_without_a_loser_trains_no_opponent() -> None:
    cut = two_sided(0, 0.0, stop=StopReason.HORIZON)
    lost = replace(broken(SPEC, 1, failure("sandbox")), segments=two_sided(1, 0.0).segments)
    group = group_of(cut, lost)
    assert group.counterparts == ()
    assert [row.trajectory_id for row in group.samples()] == ["3.0"]


def test_an_opponent_that_loses_before_the_agents_first_turn_is_trained_alone() -> None:
    both = two_sided(0, 1.0)
    alone = replace(both, segments=both.segments[1:])
    (row,) = group_of(alone).samples()
    assert (row.trajectory_id, float(row.rewards_T.sum())) == ("3.0/opponent", -1.0)


def test_sides_survive_the_journal() -> None:
    group = TrajectoryGroup(SPEC, (two_sided(0, 1.0), two_sided(1, 0.5)))
    assert group_from_payload(group_to_payload(group)) == group


def test_only_a_trained_counterpart_has_credit() -> None:
    assert PolicyCounterpart(trained=True, credit="zero_sum").credit == "zero_sum"
    with pytest.raises(ValueError, match="set trained=true"):
        PolicyCounterpart(credit="zero_sum")


@pytest.mark.parametrize("side", ["opponent", "partner"])
def test_a_constraint_counts_what_the_agent_did_and_nothing_of_its_counterpart(side) -> None:
    rows = group_of(two_sided(0, 1.0, side=side)).samples(["turns"])
    assert [float(row.costs["turns"].sum()) for row in rows] == [2.0, 0.0]
    assert mean_costs(rows, [ConstraintConfig(cost="turns", limit=1.0)]) == {"turns": 2.0}
