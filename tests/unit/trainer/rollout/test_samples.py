"""A trajectory as rows to train on."""

from dataclasses import replace

import numpy as np
import pytest

from tests.fakes.batches import trajectory
from trainer.rollout.samples import samples_of
from trainer.types import GroupSpec, Segment, StopReason, TaskRef, Turn, VersionSpan

SPEC = GroupSpec(7, TaskRef("code", "s", "t"), 0, 2, 4)


def test_rewards_are_at_the_last_token_of_the_turn_that_earned_them():
    (sample,) = samples_of(trajectory(SPEC, 1, turns=2, version=3), [0.25, 1.0], group=7)
    assert sample.id == sample.trajectory_id == "7.1"
    assert sample.group == 7
    assert sample.token_ids_T.tolist() == [1, 2, 11, 20, 1, 2, 11, 21]
    assert sample.mask_T.tolist() == [False, False, True, True] * 2
    assert sample.rewards_T.tolist() == [0, 0, 0, 0.25, 0, 0, 0, 1.0]
    assert sample.turns_T.tolist() == [-1, -1, 0, 0, -1, -1, 1, 1]
    assert sample.versions_T.tolist() == [-1, -1, 3, 3, -1, -1, 3, 3]
    assert np.allclose(sample.logprobs_T, [0, 0, -0.3, -0.4, 0, 0, -0.7, -0.8])
    assert sample.last
    assert not sample.truncated


def segment(turns, *, start=1, sampled=True):
    """So many turns of one token each."""
    ids = tuple(range(start + turns))
    mask = (False,) * start + (sampled,) * turns
    spans = [Turn(at, at + 1, (VersionSpan(at, at + 1, 0),)) for at in range(start, start + turns)]
    return Segment(ids, mask, tuple(-1.0 if each else 0.0 for each in mask), tuple(spans) if sampled else ())


def test_each_segment_is_a_row_and_turns_are_counted_over_all_of_them():
    segments = (segment(2), segment(1))
    whole = replace(trajectory(SPEC, 0), segments=segments, stop=StopReason.CONTEXT_FULL)
    first, second = samples_of(whole, [0.1, 0.2, 0.7], group=7)
    assert (first.id, second.id) == ("7.0", "7.0#1")
    assert second.turns_T.tolist() == [-1, 2]
    assert float(first.rewards_T.sum() + second.rewards_T.sum()) == pytest.approx(1.0)
    assert (first.last, second.last) == (False, True)
    assert (first.truncated, second.truncated) == (False, True)


def test_turns_of_interleaved_segments_have_their_rewards_and_costs_in_the_order_of_playing():
    def with_lines(*lines):
        turns = zip(segment(len(lines)).turns, lines, strict=True)
        return replace(segment(len(lines)), turns=tuple(replace(turn, line=line) for turn, line in turns))

    whole = replace(trajectory(SPEC, 0), segments=(with_lines(3, 5), with_lines(1, 7)))
    inner, outer = samples_of(whole, [0.1, 0.2, 0.3, 0.4], group=7, costs={"calls": [1, 2, 3, 4]})
    assert (inner.turns_T.tolist(), outer.turns_T.tolist()) == ([-1, 1, 2], [-1, 0, 3])
    assert inner.rewards_T.tolist() == pytest.approx([0, 0.2, 0.3])
    assert outer.rewards_T.tolist() == pytest.approx([0, 0.1, 0.4])
    assert (inner.costs["calls"].tolist(), outer.costs["calls"].tolist()) == ([0, 2, 3], [0, 1, 4])


def test_a_segment_in_which_nothing_was_sampled_is_no_row():
    whole = replace(trajectory(SPEC, 0), segments=(segment(1), segment(2, sampled=False)))
    (only,) = samples_of(whole, [1.0], group=7)
    assert only.last


def test_the_first_token_is_never_trained_on():
    whole = replace(trajectory(SPEC, 0), segments=(segment(3, start=0),))
    (only,) = samples_of(whole, [0.0, 0.0, 1.0], group=7)
    assert only.mask_T.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("stop", "truncated"),
    [(StopReason.TERMINATED, False), (StopReason.TRUNCATED, False), (StopReason.HORIZON, True)],
)
def test_only_our_own_limits_truncate(stop, truncated):
    (sample,) = samples_of(replace(trajectory(SPEC, 0), stop=stop), [1.0], group=7)
    assert sample.truncated is truncated


def test_rewards_have_to_be_one_a_turn():
    with pytest.raises(ValueError, match="1 turns and 2 turn rewards"):
        samples_of(trajectory(SPEC, 0), [0.0, 1.0], group=7)
