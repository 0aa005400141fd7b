"""Types that travel through a step: which message a turn is, and when it was played."""

from dataclasses import replace

import pytest

from trainer.types import Line, Segment, StopReason, TaskRef, Trajectory, Turn


def trajectory(*lines, said):
    """An episode with a turn for each of ``lines``, which are their places among the messages."""
    turns = tuple(Turn(1, 2, (), line=line) for line in lines)
    segment = Segment((1, 2), (False, True), (0.0, -1.0), turns)
    shown = tuple(Line(role, "") for role in said)
    return Trajectory("0.0", TaskRef("code", "train", "1"), 0, (segment,), StopReason.TERMINATED, lines=shown)


@pytest.mark.parametrize(
    ("lines", "said", "found"),
    [
        ((3, 1, None), ("user", "assistant", "user", "assistant"), (3, 1, None)),
        ((None, None), ("user", "assistant", "tool", "assistant"), (1, 3)),
        ((None, None), ("assistant", "assistant", "assistant"), (None, None)),
        ((), ("user", "assistant"), ()),
    ],
    ids=["recorded", "an earlier record", "one with examples", "no turns"],
)
def test_turns_belong_to_their_lines_or_to_none(lines, said, found):
    assert trajectory(*lines, said=said).lines_of_turns() == found


def test_turns_of_a_sub_agent_are_played_between_those_of_its_agent():
    inner, outer = (trajectory(*lines, said=()).segments for lines in ((3, 5), (1, 7)))
    whole = replace(trajectory(said=()), segments=(*inner, *outer))
    assert [turn.line for turn in whole.turns] == [3, 5, 1, 7]
    assert whole.playing_order() == (2, 0, 1, 3)
    assert [turn.line for turn in whole.played_turns] == [1, 3, 5, 7]


def test_turns_of_which_a_line_is_unknown_keep_their_order():
    assert trajectory(5, None, 1, said=("user",)).playing_order() == (0, 1, 2)
