"""Thoughts under the templates of real models: each is written where the model would write it."""

from __future__ import annotations

import pytest

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from tests.harness.template_families import chat_with, family_names
from trainer.chat.thought_places import ThoughtPlace, thought_place
from trainer.chat.thoughts import CLOSE, COMMON, OPEN, closed, divide

pytest.importorskip("trl")

TASK = Message(role="user", content="What is a kestrel?")
FORMATS = {
    "deepseek_v3_1": "deepseek_v31",
    "deepseekv3": "deepseek_v3",
    "gemma4": "gemma4",
    "gemma4_v2": "gemma4",
    "gemma4_v5": "gemma4",
    "glm4_6": "glm",
    "glm4_7": "glm",
    "gptoss": "harmony",
    "granite4": "hermes",
    "kimi_k2": "kimi_k2",
    "lfm2_2_5": "lfm2",
    "minimax_m2": "minimax",
    "ministral3": "mistral",
    "mistral_small_3_2": "mistral",
    "nemotron_3_nano": "qwen3_coder",
    "qwen2_5": "hermes",
    "qwen3": "hermes",
    "qwen3_5_think": "qwen3_coder",
    "qwen3_8": "qwen3_coder",
    "qwen3_vl": "hermes",
}
THINKING = {"deepseek_v3_1": {"thinking": True}}
CALL = ToolCall(id="000000000", function=FunctionCall(name="look_up", arguments='{"word": "a"}'))


def chat_of(name: str, tool_format: str | None = None):
    tool_format = tool_format or FORMATS[name]
    return chat_with(name, tool_format=tool_format, template_kwargs=THINKING.get(name, {}))


def thinking(field: str, *calls: ToolCall, said: str = "ANSWER") -> Message:
    fields = {"content": f"{OPEN}\nTHOUGHT\n{CLOSE}\n\n{said}"} if field == "content" else {field: "THOUGHT"}
    made = {"role": "assistant", "content": said, "tool_calls": calls or None}
    return Message.model_validate(made | fields)


@pytest.mark.parametrize("calls", [(), (CALL,)], ids=["words", "calls"])
@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning"])
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_recorded_thought_is_read_again_from_the_turn(name: str, field: str, calls) -> None:
    chat = chat_of(name)
    opening = chat.opening([TASK])
    made = thinking(field, *calls)
    read = chat.parse(chat.said(chat.turn(made)), prompt=opening)
    assert divide(read.content or "") == ("THOUGHT", "ANSWER")
    assert [call.function.name for call in read.tool_calls or ()] == [call.function.name for call in calls]


@pytest.mark.parametrize("name", [name for name in family_names() if name != "qwen2_5_vl"])
def test_a_thought_has_the_same_tokens_under_either_name(name: str) -> None:
    chat = chat_with(name)
    turns = [chat.turn(thinking(field)) for field in ("reasoning_content", "reasoning")]
    assert turns[0] == turns[1]
    assert ("THOUGHT" in chat.decode(turns[0])) is not closed(chat.decode(chat.opening([TASK])))


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("gemma4", "<|channel>thought\nTHOUGHT\n<channel|>ANSWER<turn|>"),
        ("gemma4_v5", "<|channel>thought\nTHOUGHT\n<channel|>ANSWER<turn|>"),
        ("glm4_7", "THOUGHT</think>ANSWER<|user|>"),
        (
            "gptoss",
            "<|channel|>analysis<|message|>THOUGHT<|end|>"
            "<|start|>assistant<|channel|>final<|message|>ANSWER<|return|>",
        ),
        ("deepseek_v3_1", "THOUGHT</think>ANSWER<｜end▁of▁sentence｜>"),
        ("minimax_m2", "THOUGHT\n</think>\n\nANSWER[e~["),
        ("ministral3", "[THINK]THOUGHT[/THINK]ANSWER</s>"),
        ("nemotron_3_nano", "THOUGHT\n</think>\nANSWER<|im_end|>"),
        ("qwen3", "<think>\nTHOUGHT\n</think>\n\nANSWER<|im_end|>"),
        ("qwen3_8", "THOUGHT\n</think>\n\nANSWER<|im_end|>"),
    ],
)
@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning"])
def test_a_turn_thinks_in_the_familys_own_frame(name: str, turn: str, field: str) -> None:
    chat = chat_of(name)
    assert chat.decode(chat.turn(thinking(field))) == turn


@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning"])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("qwen3_8", "assistant\n<think>\nTHOUGHT\n</think>\n\nANSWER<|im_end|>"),
        ("ministral3", "[/INST][THINK]THOUGHT[/THINK]ANSWER</s>"),
        ("gemma4_v2", "<|turn>model\nANSWER<turn|>"),
        ("deepseek_v3_1", "<｜Assistant｜><think></think>ANSWER<｜end▁of▁sentence｜>"),
    ],
)
def test_a_history_has_a_thought_where_the_family_has_it_or_not_at_all(name, part, field) -> None:
    chat = chat_of(name)
    assert part in chat.decode(chat.opening([TASK, thinking(field), TASK]))


@pytest.mark.parametrize(("name", "mark"), [("ministral3", "[THINK]"), ("gemma4_v5", "<|channel>")])
def test_the_marks_are_the_familys_special_tokens(name: str, mark: str) -> None:
    chat = chat_of(name)
    (token,) = chat.encode(mark)
    assert token in chat.turn(thinking("content"))


def test_harmony_takes_a_thought_and_words_before_calls_in_a_history() -> None:
    chat = chat_of("gptoss")
    answer = Message(role="tool", content="A bird.", tool_call_id="000000000", name="look_up")
    text = chat.decode(chat.opening([TASK, thinking("reasoning", CALL), answer]))
    assert "<|channel|>analysis<|message|>THOUGHT\n\nANSWER<|end|>" in text
    assert "to=functions.look_up<|channel|>commentary json<|message|>" in text


def test_harmony_says_words_before_a_call_of_an_earlier_turn_on_their_own() -> None:
    chat = chat_of("gptoss")
    call = Message(role="assistant", content="I look it up.", tool_calls=(CALL,))
    answer = Message(role="tool", content="A bird.", tool_call_id="000000000", name="look_up")
    text = chat.decode(chat.opening([TASK, call, answer, Message(role="assistant", content="So."), TASK]))
    words = "<|start|>assistant<|channel|>final<|message|>I look it up.<|end|>"
    assert f"{words}<|start|>assistant to=functions.look_up<|channel|>commentary json<|message|>" in text
    assert "<|start|>functions.look_up to=assistant<|channel|>commentary<|message|>" in text


@pytest.mark.parametrize("name", ["deepseek_v3_1", "qwen3_5_nothink"])
def test_thoughts_are_left_out_once_reported_where_the_prompt_closes_the_thought(name: str, caplog) -> None:
    chat = chat_with(name)
    for field in ("content", "reasoning"):
        assert chat.decode(chat.turn(thinking(field))) == "ANSWER" + chat.decode(chat.stop_ids[:1])
    assert caplog.text.count("thoughts of recorded turns are left out") == 1


def test_a_turn_behind_a_prompt_that_opens_no_thought_opens_it_itself() -> None:
    chat = chat_of("deepseek_v3_1")
    called = thinking("reasoning", CALL)
    answer = Message(role="tool", content="A bird.", tool_call_id="000000000", name="look_up")
    turn = chat.turn(called, prompt := chat.opening([TASK]))
    tokens = [*prompt, *turn, *chat.continuation([answer], turn[-1])]
    assert chat.decode(turn).startswith("THOUGHT</think>ANSWER")
    assert chat.decode(tokens).endswith("<｜tool▁output▁end｜>")
    assert chat.decode(chat.turn(thinking("reasoning"), tokens)).startswith("<think>\nTHOUGHT\n</think>")
    assert chat.decode(chat.turn(Message(role="assistant", content="A."), tokens)).startswith("A.")


def rendered_by(text: str):
    """A template that prints the given text with the thought in it, wherever that is given."""
    return lambda messages, place: text.format(messages[0].content, messages[1].reasoning_content)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{0}{1}", ThoughtPlace.FIELDS),
        ("{0}", ThoughtPlace.NOWHERE),
        ("", ThoughtPlace.NOWHERE),
    ],
)
def test_what_the_template_prints_decides(text: str, place: ThoughtPlace) -> None:
    assert thought_place(rendered_by(text), COMMON) is place


@pytest.mark.parametrize(
    ("before", "place"),
    [
        (OPEN, ThoughtPlace.CONTENT),
        (f"{OPEN}\n", ThoughtPlace.CONTENT),
        (f"{OPEN}\n\n{CLOSE}\n\n{OPEN}\n", ThoughtPlace.NOWHERE),
        ("[THINK]", ThoughtPlace.NOWHERE),
    ],
)
def test_a_thought_in_the_content_stands_behind_the_one_mark_that_opens_it(before, place) -> None:
    def render(messages, asked):
        thought = messages[1].reasoning_content if asked is ThoughtPlace.CONTENT else ""
        return f"{messages[0].content}{before}{thought}"

    assert thought_place(render, COMMON) is place
