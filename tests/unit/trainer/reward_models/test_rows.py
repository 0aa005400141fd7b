"""Rows to score: an end for each turn, in the order of the turns."""

import pytest

from trainer.reward_models.rows import TextReader
from trainer.types import Line, Segment, StopReason, TaskRef, Trajectory, Turn


class Letters:
    """A tokenizer of one token a message, which is the code of its text."""

    chat_template = "letters"

    def apply_chat_template(self, messages, *, tokenize, return_dict):
        return [ord(message["content"]) for message in messages]


def trajectory(*segments):
    """The messages "qabcd", of which the assistant said all but the first, and segments of these turns."""
    lines = (Line("user", "q"), *(Line("assistant", letter) for letter in "abcd"))
    made = tuple(
        Segment((1, 2), (False, True), (0.0, -1.0), tuple(Turn(1, 2, (), line=line) for line in own))
        for own in segments
    )
    return Trajectory("0.0", TaskRef("code", "train", "1"), 0, made, StopReason.TERMINATED, lines=lines)


@pytest.mark.parametrize(
    ("segments", "read"),
    [
        ([(1, 2, 3, 4)], ["qa", "qab", "qabc", "qabcd"]),
        ([(2,), (1, 3), (4,)], ["qab", "qa", "qabc", "qabcd"]),
        ([(3, 4)], ["qabc", "qabcd"]),
        ([(None,) * 4], ["qa", "qab", "qabc", "qabcd"]),
        ([], ["qa", "qab", "qabc", "qabcd"]),
    ],
    ids=["one agent", "a sub-agent", "behind examples", "an earlier record", "messages alone"],
)
def test_a_text_is_read_behind_the_message_of_each_turn(segments, read):
    rows = TextReader(Letters()).read_episode(trajectory(*segments))
    assert ["".join(map(chr, row.token_ids[:end])) for row in rows for end in row.ends] == read
    assert all(list(row.ends) == sorted(row.ends) for row in rows)
