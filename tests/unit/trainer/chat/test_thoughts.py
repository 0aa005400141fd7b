"""Thoughts are read wherever a server puts them, and written in a family's marks."""

import pytest

from sandbox_contract.messages import Message
from trainer.chat.thoughts import (
    COMMON,
    ThoughtMarks,
    apart,
    closed,
    divide,
    marked,
    opened,
    own_marks,
    read_alone,
    split_thoughts,
    thought_before,
    thought_of,
    whole,
)
from trainer.chat.tool_formats import TOOL_FORMATS

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


SPOKEN_OF = "text.split('</think>')[-1]"
CALL = f'<tool_call>{{"name": "write", "arguments": {{"text": "{SPOKEN_OF}"}}}}</tool_call>'
DRAFT = '<tool_call>{"name": "draft", "arguments": {}}</tool_call>'


@pytest.mark.parametrize(
    ("content", "thought", "words"),
    [
        (
            "They close a thought with </think> and answer.",
            None,
            "They close a thought with </think> and answer.",
        ),
        ("<think>Hm.</think>End it with </think>.", "Hm.", "End it with </think>."),
        ("Begin it with <think>.", None, "Begin it with <think>."),
        (" <think>a</think>\n<think>b</think>\n\n5", "a</think>\n<think>b", "5"),
        ("<think>Hm. ", "Hm. ", ""),
        ("<think>a</think><think>b", "a</think><think>b", ""),
        ("<think>\n\n</think>\n\n5", "", "5"),
    ],
)
def test_a_thought_is_what_a_content_begins_with(content: str, thought: str | None, words: str) -> None:
    assert thought_before(content) == (thought, words)


def test_a_content_that_lacks_the_opening_mark_is_a_thought_up_to_the_first_closing_one() -> None:
    assert divide("A sum.\n</think>\n\nEnd it with </think>.") == ("A sum.", "End it with </think>.")


@pytest.mark.parametrize(("begin", "end"), [("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>")])
def test_only_the_marks_around_a_leading_thought_become_the_common_ones(begin: str, end: str) -> None:
    assert marked(f"{begin}Hm.{end}Yes.") == "<think>Hm.</think>Yes."
    assert marked(f"{begin}Hm.") == "<think>Hm."
    assert (
        marked(f"{begin}a{end}\n{begin}b{end}{begin[1:]}") == f"<think>a</think>\n<think>b</think>{begin[1:]}"
    )
    for text in (f"The marks are {begin} and {end}.", f"<think>Hm.</think>{CALL}{begin}{end}"):
        assert marked(text) == text


@pytest.mark.parametrize("thought", ["", "<think>\nHm.\n</think>\n\n", "<think>a</think><think>b</think>"])
def test_a_call_that_speaks_of_the_marks_is_a_call(thought: str) -> None:
    assert split_thoughts(thought + CALL)[1].strip() == CALL
    (read,) = TOOL_FORMATS["hermes"].parse(thought + CALL).tool_calls or ()
    assert SPOKEN_OF in str(read.function.arguments)


@pytest.mark.parametrize(
    ("text", "names", "content"),
    [
        (CALL, ["write"], ""),
        (f"Maybe {DRAFT}</think>{CALL}", ["write"], f"<think>Maybe {DRAFT}</think>"),
        (f"<think>Maybe {DRAFT}</think>{CALL}", ["write"], f"<think>Maybe {DRAFT}</think>"),
        ("A sum.</think>5", [], "<think>A sum.</think>5"),
    ],
    ids=["mention", "unopened", "opened", "words"],
)
def test_a_turn_without_its_prompt_may_lack_the_mark_that_opens_its_thought(text, names, content) -> None:
    read = read_alone(TOOL_FORMATS["hermes"].parse, text)
    assert [call.function.name for call in read.tool_calls or ()] == names
    assert (read.content or "") == content


def test_a_turn_without_its_prompt_may_close_the_familys_own_mark() -> None:
    read = read_alone(lambda text: said(marked(text)), "Hm.[/THINK]5", MISTRAL)
    assert read.content == "<think>Hm.</think>5"
