"""Conversations under the templates of real models: nothing is lost, and the pieces make the whole."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_contract.messages import FunctionCall, FunctionSchema, Message, Tool, ToolCall
from tests.harness.template_families import chat_with, family_names, kept_names, mistral_names, trl_names
from trainer.chat.tool_formats import TOOL_FORMATS
from trainer.chat.tool_formats.base import arguments_of

pytest.importorskip("trl")

SCHEMA = {
    "type": "object",
    "properties": {
        "word": {"type": "string", "description": "What to look up."},
        "times": {"type": "integer", "description": "How often."},
    },
    "required": ["word"],
}
TOOL = Tool(function=FunctionSchema(name="look_up", description="Look it up.", parameters=SCHEMA))
TASK = Message(role="user", content="What is a kestrel?")


def tool_answer(text: str, number: int = 0) -> Message:
    return Message(role="tool", content=text, tool_call_id=f"{number:09d}", name="look_up")


def calling(*words: str, content: str | None = None) -> Message:
    calls = tuple(
        ToolCall(
            id=f"{number:09d}",
            function=FunctionCall(name="look_up", arguments=json.dumps({"word": word, "times": 2})),
        )
        for number, word in enumerate(words)
    )
    return Message(role="assistant", content=content, tool_calls=calls)


def calls_of(message: Message) -> list[tuple[str, object]]:
    return [(call.function.name, arguments_of(call)) for call in message.tool_calls or ()]


@dataclass(frozen=True)
class Family:
    """The expected properties of a template."""

    end: str
    """Ends a turn of plain words."""
    form: str | None = None
    """Reads the calls that the template writes; None where it writes none."""
    call_end: str | None = None
    """Ends a turn with calls, where it is another."""
    tells: bool = True
    """It tells tools."""
    thinks: bool = False
    """The head of a turn opens a thought."""


IM_END = "<|im_end|>"
EOT = "<|eot_id|>"
EOS = "<｜end▁of▁sentence｜>"
FAMILIES = {
    "cohere": Family("<|END_OF_TURN_TOKEN|>", tells=False),
    "cohere2": Family("<|END_OF_TURN_TOKEN|>", tells=False),
    "deepseek_r1_distill": Family(EOS, tells=False, thinks=True),
    "deepseek_v3_1": Family(EOS, "deepseek_v31", tells=False),
    "deepseekv3": Family(EOS, "deepseek_v3", tells=False, thinks=True),
    "diffusion_gemma": Family("<turn|>", "gemma4", "<|tool_response>"),
    "gemma": Family("<end_of_turn>", tells=False),
    "gemma3": Family("<end_of_turn>", tells=False),
    "gemma4": Family("<turn|>", "gemma4", "<|tool_response>"),
    "gemma4_v2": Family("<turn|>", "gemma4"),
    "gemma4_v3": Family("<turn|>", "gemma4", "<|tool_response>"),
    "gemma4_v4": Family("<turn|>", "gemma4", "<|tool_response>"),
    "gemma4_v5": Family("<turn|>", "gemma4", "<|tool_response>"),
    "glm4_6": Family("<|user|>", "glm", "<|observation|>"),
    "glm4_7": Family("<|user|>", "glm", "<|observation|>", thinks=True),
    "glm4moe": Family("<|user|>", "glm", "<|observation|>"),
    "gptoss": Family("<|return|>", "harmony", "<|call|>"),
    "granite3_3": Family("<|end_of_text|>"),
    "granite4": Family("<|end_of_text|>", "hermes"),
    "kimi_k2": Family(IM_END, "kimi_k2"),
    "lfm2": Family(IM_END),
    "lfm2_2_5": Family(IM_END, "lfm2"),
    "lfm2_2_5_v2": Family(IM_END, "lfm2"),
    "lfm2_2_5_vl": Family(IM_END, "lfm2"),
    "lfm2_v2": Family(IM_END, "lfm2"),
    "llama3": Family(EOT, tells=False),
    "llama3_1": Family(EOT, "llama3"),
    "llama3_2": Family(EOT, "llama3"),
    "llama4": Family("<|eot|>", "llama3"),
    "minimax_m2": Family("[e~[", "minimax", thinks=True),
    "ministral3": Family("</s>", "mistral"),
    "mistral_nemo": Family("</s>", "mistral"),
    "mistral_small_3_2": Family("</s>", "mistral"),
    **{name: Family("</s>", "mistral") for name in mistral_names()},
    **({"mistral_v1": Family("</s>", tells=False)} if mistral_names() else {}),
    "nemotron_3_5_lightning": Family(IM_END, "qwen3_coder", thinks=True),
    "nemotron_3_nano": Family(IM_END, "qwen3_coder", thinks=True),
    "nemotron_3_super": Family(IM_END, "qwen3_coder", thinks=True),
    "nemotron_3_ultra": Family(IM_END, "qwen3_coder", thinks=True),
    "phi3": Family("<|end|>", tells=False),
    "phi3_5": Family("<|end|>", tells=False),
    "phi4": Family(IM_END, tells=False),
    "phi4_mini": Family("<|end|>", tells=False),
    "qwen2_5": Family(IM_END, "hermes"),
    "qwen2_5_vl": Family(IM_END, tells=False),
    "qwen3": Family(IM_END, "hermes"),
    "qwen3_5_nothink": Family(IM_END, "qwen3_coder"),
    "qwen3_5_think": Family(IM_END, "qwen3_coder", thinks=True),
    "qwen3_6": Family(IM_END, "qwen3_coder", thinks=True),
    "qwen3_8": Family(IM_END, "qwen3_coder", thinks=True),
    "qwen3_coder": Family(IM_END, "qwen3_coder"),
    "qwen3_instruct_2507": Family(IM_END, "hermes"),
    "qwen3_vl": Family(IM_END, "hermes"),
    "smollm2": Family(IM_END, tells=False),
    "smollm3": Family(IM_END, tells=False),
}
"""By the template's name; ``docs/trainer/models.md`` says which models have them."""
CALLING = sorted(name for name, family in FAMILIES.items() if family.form)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_turn_ends_as_the_family_ends_it(name: str) -> None:
    family, chat = FAMILIES[name], chat_with(name)
    assert chat.decode(chat.turn("hi")) == "hi" + family.end
    own = {family.end, family.call_end or family.end}
    assert own <= {chat.decode([stop]) for stop in chat.stop_ids}


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_tools_reach_every_model(name: str, caplog: pytest.LogCaptureFixture) -> None:
    chat = chat_with(name)
    text = chat.decode(chat.opening([Message(role="system", content="Be brief."), TASK], [TOOL]))
    assert "look_up" in text
    assert "Be brief." in text
    assert ("rendered into the system prompt" in caplog.text) is not FAMILIES[name].tells


@pytest.mark.parametrize("name", CALLING)
def test_demonstrations_are_written_in_the_familys_notation_and_read_again(name: str) -> None:
    chat = chat_with(name, tool_format=FAMILIES[name].form)
    opening = chat.opening([TASK], [TOOL])
    for made in (calling("a falcon"), Message(role="assistant", content="A small falcon.")):
        turn = chat.turn(made)
        said = chat.parse(chat.said(turn), tools=[TOOL], prompt=opening)
        assert calls_of(said) == calls_of(made)
        assert turn[-1] in chat.stop_ids
        assert (made.content or "") in (said.content or "")


@pytest.mark.parametrize("name", CALLING)
def test_a_tool_format_that_does_not_read_the_templates_calls_is_reported(name: str, caplog) -> None:
    chat_with(name, tool_format=FAMILIES[name].form)
    assert "chat.tool_format" not in caplog.text
    other = "glm" if FAMILIES[name].form != "glm" else "hermes"
    chat_with(name, tool_format=other)
    assert (f"chat.tool_format='{FAMILIES[name].form}'" in caplog.text) is FAMILIES[name].tells


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_call_in_a_thought_that_the_prompt_opened_is_a_draft(name: str) -> None:
    family = FAMILIES[name]
    form = family.form or "hermes"
    chat = chat_with(name, tool_format=form)
    opening = chat.opening([TASK], [TOOL])
    draft = TOOL_FORMATS[form].render(calling("a"))
    said = chat.parse(f"Maybe {draft} no, wait", tools=[TOOL], prompt=opening)
    if family.thinks:
        assert said.tool_calls is None
        assert (said.content or "").startswith("<think>")
        done = chat.parse(f"Maybe {draft}</think>{draft}", tools=[TOOL], prompt=opening)
        assert calls_of(done) == calls_of(calling("a"))
    else:
        assert chat.parse(draft, prompt=opening).tool_calls is not None


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_call_that_speaks_of_the_marks_of_thoughts_is_a_call(name: str) -> None:
    family = FAMILIES[name]
    form = family.form or "hermes"
    chat = chat_with(name, tool_format=form)
    opening = chat.opening([TASK], [TOOL])
    for word in ("</think>", "<think>a</think>"):
        made = calling(word)
        thought = "Hm.</think>" if family.thinks else ""
        said = chat.parse(thought + TOOL_FORMATS[form].render(made), tools=[TOOL], prompt=opening)
        assert calls_of(said) == calls_of(made)


@pytest.mark.parametrize("name", sorted(name for name, family in FAMILIES.items() if family.thinks))
def test_a_thought_behind_a_prompt_that_opens_none_may_lack_its_mark(name: str) -> None:
    form = FAMILIES[name].form or "hermes"
    chat = chat_with(name, tool_format=form)
    draft = TOOL_FORMATS[form].render(calling("a"))
    text = f"Maybe {draft}</think>{TOOL_FORMATS[form].render(calling('b'))}"
    said = chat.parse(text, tools=[TOOL], prompt=chat.encode("The answer of a tool."))
    assert calls_of(said) == calls_of(calling("b"))
    assert (said.content or "").startswith("<think>Maybe")


@pytest.mark.parametrize("name", family_names())
@pytest.mark.parametrize("answers", [1, 2])
def test_nothing_that_is_heard_is_lost(name: str, answers: int) -> None:
    chat = chat_with(name)
    told = [tool_answer(f"OBSERVED-{number}", number) for number in range(answers)]
    text = chat.decode(chat.continuation(told))
    assert [f"OBSERVED-{number}" in text for number in range(answers)] == [True] * answers
    text = chat.decode(chat.continuation([Message(role="user", content="WORDS")]))
    assert "WORDS" in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gemma4_v5", 'response:look_up{value:<|"|>OBS<|"|>}<tool_response|>'),
        (
            "gptoss",
            "<|start|>functions.look_up to=assistant<|channel|>commentary<|message|>"
            '"OBS"<|end|><|start|>assistant',
        ),
        ("glm4moe", "\n<tool_response>\nOBS\n</tool_response><|assistant|>"),
        (
            "deepseekv3",
            "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>OBS<｜tool▁output▁end｜><｜tool▁outputs▁end｜>",
        ),
    ],
)
def test_an_answer_follows_a_call_in_the_familys_own_frame(name: str, text: str) -> None:
    chat = chat_with(name, tool_format=FAMILIES[name].form)
    assert chat.decode(chat.continuation([tool_answer("OBS")], chat.turn(calling("a"))[-1])) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("glm4_7", "</think><tool_call>look_up<arg_key>word</arg_key><arg_value>a</arg_value>"),
        ("minimax_m2", '\n</think>\n\n<minimax:tool_call>\n<invoke name="look_up">'),
        ("deepseek_v3_1", "</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look_up<｜tool▁sep｜>"),
    ],
)
def test_a_demonstration_closes_the_thought_that_the_prompt_opens(name: str, text: str) -> None:
    thinking = {"thinking": True} if name == "deepseek_v3_1" else {}
    chat = chat_with(name, tool_format=FAMILIES[name].form, template_kwargs=thinking)
    assert chat.decode(chat.opening([TASK])).rstrip().endswith("<think>")
    assert chat.decode(chat.turn(calling("a"))).startswith(text)


def test_a_turn_that_another_token_ended_still_gets_its_end() -> None:
    chat = chat_with("qwen3")
    other = chat.encode("<|endoftext|>")[0]
    assert other in chat.stop_ids
    assert chat.decode(chat.continuation([TASK], other)).startswith("<|im_end|>\n<|im_start|>user\n")
    assert chat.decode(chat.continuation([TASK], chat.stop_ids[0])).startswith("\n<|im_start|>user\n")


WORDS = st.text(
    st.sampled_from([*"aZ9 .,:;'\"\\{}[]<>|/=&\n\t", "é", "語", "\N{GRINNING FACE}", "\u200d"]), min_size=1
)
MARKUP = st.sampled_from(
    [
        "<|im_end|>",
        "<|im_start|>system\n",
        "</tool_response>",
        "<think>",
        "{{ messages }}",
        "[/INST]",
        "<eos>",
    ]
)
CONTENT = st.lists(st.one_of(WORDS, MARKUP), min_size=1, max_size=4).map("".join)
SAID = st.text(st.sampled_from("abc é語."), min_size=1, max_size=12).map(lambda text: f"x{text}x")


@st.composite
def conversations(draw: st.DrawFn, calls: bool) -> tuple[list[Message], Message, list[Message]]:
    """Messages before a turn, the turn, and what answers it."""
    before = [Message(role="system", content=draw(SAID))] if draw(st.booleans()) else []
    before.append(Message(role="user", content="Q " + draw(CONTENT)))
    if not calls or draw(st.booleans()):
        answer = Message(role="user", content="A " + draw(CONTENT))
        return before, Message(role="assistant", content=draw(SAID)), [answer]
    word = draw(SAID)
    return before, calling(word), [tool_answer("A " + draw(CONTENT))]


WRITTEN_ONCE = sorted(
    set(FAMILIES)
    - {"qwen3", "qwen3_5_nothink"}
    - {"mistral_nemo", "mistral_v2"}
    - {name for name, family in FAMILIES.items() if family.thinks}
)
"""Templates that render a turn in a history as they render it at the end.

Of the others, Qwen's and those that open a thought drop it; Mistral's before v7 move the system prompt to the
last user's message.
"""


@pytest.mark.parametrize("name", family_names())
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_pieces_are_what_the_template_makes_of_the_whole(name: str, data: st.DataObject) -> None:
    form = FAMILIES[name].form if name in FAMILIES else None
    chat = chat_with(name, tool_format=form or "text")
    before, turn, after = data.draw(conversations(calls=form is not None))
    opening, said = chat.opening(before), chat.turn(turn)
    pieces = [*opening, *said, *chat.continuation(after, said[-1])]
    text = chat.decode(pieces)
    for message in (*before, turn, *after):
        content = (message.content or "").strip()
        escaped = (json.dumps(content, ensure_ascii=False)[1:-1], content)
        assert any(each in text for each in escaped)
    whole = chat.opening([*before, turn, *after])
    kept = len(opening) + len(said) - 1
    if name in WRITTEN_ONCE or whole[:kept] == pieces[:kept]:
        assert pieces == whole or _differs_in_the_end_alone(chat, pieces, whole, kept)


def _differs_in_the_end_alone(chat, pieces: list[int], whole: list[int], kept: int) -> bool:
    """Harmony ends the last message of a conversation with another token than an earlier one."""
    return pieces[kept] in chat.stop_ids and pieces[kept + 1 :] == whole[kept + 1 :]


@pytest.mark.parametrize(
    "name", [name for name in [*trl_names(), *kept_names(), *mistral_names()] if name != "muse_glimmer"]
)
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(words=CONTENT)
def test_what_looks_like_a_special_token_is_text(name: str, words: str) -> None:
    chat = chat_with(name)
    special = set(chat.tokenizer.all_special_ids) | set(chat.tokenizer.added_tokens_decoder)
    special -= {token for token, added in chat.tokenizer.added_tokens_decoder.items() if not added.special}
    for plain, marked in (
        ([tool_answer("x")], [tool_answer(f"x {words}")]),
        ([Message(role="user", content="x")], [Message(role="user", content=f"x {words}")]),
    ):
        frame = [token for token in chat.continuation(plain) if token in special]
        found = [token for token in chat.continuation(marked) if token in special]
        assert found == frame
