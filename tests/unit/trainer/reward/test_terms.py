"""Shaping terms: what each turn earns."""

from dataclasses import replace

import pytest

from tests.harness.episodes_played import played
from trainer.config.reward import TermWeights
from trainer.reward.terms import (
    TERMS,
    Limits,
    efficiency,
    execution_success,
    file_operation,
    format_,
    length,
    progress,
)
from trainer.types import Segment

LIMITS = Limits(horizon=8, context_tokens=100)


def test_every_weight_has_a_term() -> None:
    assert set(TERMS) == set(TermWeights.model_fields)


def test_execution_success_is_the_share_of_actions_that_succeeded() -> None:
    episode = played({"actions": 3, "succeeded": 1}, {}, {"actions": 1, "succeeded": 1})
    assert execution_success(episode, LIMITS) == pytest.approx((0.25, 0, 0.25))
    assert execution_success(played({}, {}), LIMITS) == (0.0, 0.0)


def test_only_the_first_file_counts() -> None:
    assert file_operation(played({"files": 0.0}, {"files": 1.0}, {"files": 1.0}), LIMITS) == (0, 1, 0)
    assert file_operation(played({}, {}), LIMITS) == (0, 0)


def test_progress_is_growth_and_costs_what_is_undone() -> None:
    episode = played({"progress": 0.5}, {}, {"progress": 0.25}, {"progress": 1.0})
    assert progress(episode, LIMITS) == pytest.approx((0.5, 0, -0.25, 0.75))


def test_progress_of_a_sub_agent_is_not_that_of_its_agents_next_turn() -> None:
    def at_lines(*turns: tuple[int, float]) -> Segment:
        (segment,) = played(*({"progress": measure} for _, measure in turns)).segments
        lines = (line for line, _ in turns)
        found = (replace(turn, line=line) for turn, line in zip(segment.turns, lines, strict=True))
        return replace(segment, turns=tuple(found))

    segments = (at_lines((3, 0.5), (5, 0.75)), at_lines((1, 0.25), (7, 1.0)))
    assert progress(replace(played(), segments=segments), LIMITS) == pytest.approx((0.25,) * 4)


def test_efficiency_rewards_unused_turns_of_solved_episodes_only() -> None:
    assert efficiency(played({}, {}, success=True), LIMITS) == (0, 0.75)
    assert efficiency(played({}, {}, success=False), LIMITS) == (0, 0)
    assert efficiency(played({}, {}, success=None), LIMITS) == (0, 0)
    assert efficiency(played(*[{}] * 9, success=True), LIMITS)[-1] == 0


def test_format_is_the_share_of_well_formed_turns() -> None:
    assert format_(played({"well_formed": 1.0}, {"well_formed": 0.0}), LIMITS) == (0.5, 0)


def test_length_costs_the_share_of_the_context_and_at_most_one() -> None:
    assert length(played({}, {}, tokens=[10, 30]), LIMITS) == pytest.approx((-0.1, -0.3))
    assert length(played({}, {}, tokens=[100, 300]), LIMITS) == pytest.approx((-0.25, -0.75))


@pytest.mark.parametrize("name", sorted(TERMS))
def test_an_episode_without_turns_earns_nothing(name: str) -> None:
    assert TERMS[name](played(success=True), LIMITS) == ()


@pytest.mark.parametrize("name", sorted(TERMS))
def test_limits_of_zero_divide_nothing(name: str) -> None:
    values = TERMS[name](played({}, {}, success=True, tokens=[0, 0]), Limits(0, 0))
    assert len(values) == 2
    assert all(-1 <= value <= 1 for value in values)
