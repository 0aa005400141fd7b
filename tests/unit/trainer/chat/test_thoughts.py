"""Thoughts are read wherever a server puts them, and written in a family's marks."""

import pytest

from sandbox_contract.messages import Message
from trainer.chat.thoughts import (
    COMMON,
    ThoughtMarks,
    apart,
    closed,
    divide,
    opened,
    own_marks,
    thought_of,
    whole,
)

MISTRAL = ThoughtMarks("[THINK]", "[/THINK]")


def said(content: str | None = "5", **fields: str) -> Message:
    return Message(role="assistant", content=content, **fields)


@pytest.mark.parametrize(
    ("message", "thought"),
    [
        (said(), None),
        (said(reasoning_content="A sum."), "A sum."),
        (said(reasoning="A sum."), "A sum."),
        (said("<think>\nA sum.\n</think>\n\n5"), "A sum."),
        (said("<think>A sum.</think>5", reasoning="A sum."), "A sum."),
        (said("<think>So 5.</think>5", reasoning="A sum."), "A sum.\nSo 5."),
        (said("<think></think>5", reasoning="A sum."), "A sum."),
    ],
    ids=["none", "reasoning_content", "reasoning", "content", "both", "different", "empty"],
)
def test_a_thought_is_found_wherever_it_is(message: Message, thought: str | None) -> None:
    assert thought_of(message) == (thought, "5")
    assert thought_of(apart(message)) == thought_of(whole(message)) == (thought, "5")
    assert not whole(message).reasoning_content
    assert not whole(message).reasoning


def test_a_field_leaves_a_content_alone_that_speaks_of_the_marks() -> None:
    assert thought_of(said("End it with </think>.", reasoning="Hm.")) == ("Hm.", "End it with </think>.")


def test_a_content_without_a_field_stays_as_it_was_written() -> None:
    message = said("<think>A sum.</think>5")
    assert whole(message) is message


def test_marks_are_those_that_the_template_mentions() -> None:
    assert own_marks("{{ '[THINK]' + block.thinking + '[/THINK]' }}") == MISTRAL
    assert own_marks("{{ message.content }}") == COMMON


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("assistant\n", "<think>\nA sum.\n</think>\n\n5"),
        ("assistant\n<think>\n", "A sum.\n</think>\n\n5"),
        ("<assistant><think>", "A sum.</think>5"),
    ],
)
def test_a_prompt_that_opens_the_thought_has_its_mark(head: str, text: str) -> None:
    assert COMMON.framed("A sum.", "5", head) == text
    assert divide(text) == ("A sum.", "5")


def test_a_family_without_line_ends_gets_none() -> None:
    assert MISTRAL.framed("A sum.", "5") == "[THINK]A sum.[/THINK]5"


def test_a_prompt_opens_a_thought_or_closes_one() -> None:
    assert [opened("a<think>\n"), opened("a<think>\n\n</think>\n\n"), opened("a")] == ["<think>", "", ""]
    assert [closed("a<think>\n"), closed("a<think>\n\n</think>\n\n"), closed("a")] == [False, True, False]
