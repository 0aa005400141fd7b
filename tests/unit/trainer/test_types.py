"""Types that travel through a step: which message a turn is."""

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
