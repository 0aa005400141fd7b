"""Text that looks like a special token is ordinary text in calls, names and thoughts, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from tests.harness.chat_templates import CHATML, write_tokenizer
from tests.harness.template_families import chat_with
from trainer.chat import ChatTokenizer
from trainer.chat.thoughts import thought_of
from trainer.config.model import ChatConfig
from trainer.errors import ConfigError

pytest.importorskip("trl")

TASK = Message(role="user", content="What is a kestrel?")
FAMILIES = {
    "qwen3": "hermes",
    "qwen3_8": "qwen3_coder",
    "gptoss": "harmony",
    "glm4_7": "glm",
    "lfm2_2_5": "lfm2",
}


def specials(chat: ChatTokenizer, tokens: list[int]) -> list[int]:
    added = chat.tokenizer.added_tokens_decoder
    return [token for token in tokens if token in added and added[token].special]


def calling(arguments: object, name: str = "look_up") -> Message:
    function = FunctionCall.model_validate({"name": name, "arguments": arguments})
    return Message(role="assistant", tool_calls=(ToolCall(id="000000000", function=function),))


@pytest.mark.parametrize("as_text", [True, False], ids=["text", "object"])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_arguments_of_calls_have_no_special_tokens(name: str, as_text: bool) -> None:
    chat = chat_with(name, tool_format=FAMILIES[name])
    end = chat.decode(chat.stop_ids[:1])
    plain, marked = ({"word": "a"}, {"word": f"a{end}b"})
    frames = [chat.opening([TASK, calling(plain)]), chat.turn(calling(plain))]
    for pieces, frame in zip((chat.opening, chat.turn), frames, strict=True):
        made = calling(json.dumps(marked) if as_text else marked)
        tokens = pieces([TASK, made]) if pieces == chat.opening else pieces(made)
        assert specials(chat, tokens) == specials(chat, frame)
        assert f"a{end}b" in chat.decode(tokens)


@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning"])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_thoughts_have_no_special_tokens(name: str, field: str) -> None:
    chat = chat_with(name, tool_format=FAMILIES[name])
    end = chat.decode(chat.stop_ids[:1])
    turns = []
    for thought in ("a b", f"a{end}b"):
        fields = {"content": f"<think>\n{thought}\n</think>\n\n5"} if field == "content" else {field: thought}
        made = Message.model_validate({"role": "assistant", "content": "5"} | fields)
        assert thought_of(made) == (thought, "5")
        turns.append(chat.turn(made))
    assert specials(chat, turns[0]) == specials(chat, turns[1])
    assert f"a{end}b" in chat.decode(turns[1])


def test_what_json_spells_otherwise_is_found() -> None:
    chat = chat_with("qwen3", tool_format="hermes")
    frame = chat.opening([TASK, calling({"word": "a"})])
    tokens = chat.opening([TASK, calling('{"word": "\\u003c|im_end|\\u003e"}')])
    assert '<|im_end|>"}' in chat.decode(tokens)
    assert specials(chat, tokens) == specials(chat, frame)


@pytest.mark.parametrize("arguments", ["not JSON <|im_end|>", {"<|im_end|>": [1, None, "<|im_end|>"]}])
def test_keys_and_text_that_is_no_json_are_hidden(arguments) -> None:
    chat = chat_with("qwen3", tool_format="hermes")
    tokens = chat.opening([TASK, calling(arguments)])
    assert specials(chat, tokens) == specials(chat, chat.opening([TASK, calling({"word": "a"})]))


@pytest.mark.parametrize("depth", [400, 700])
def test_deep_arguments_are_hidden_as_well(depth: int) -> None:
    chat = chat_with("qwen3", tool_format="hermes")
    deep = "[" * depth + '"<|im_end|>"' + "]" * depth
    tokens = chat.opening([TASK, calling(f'{{"word": {deep}}}')])
    assert specials(chat, tokens) == specials(chat, chat.opening([TASK, calling({"word": "a"})]))


@pytest.mark.parametrize("name", [*sorted(FAMILIES), "kimi_k2", "llama3_1"])
def test_names_that_a_model_made_up_have_no_special_tokens(name: str) -> None:
    chat = chat_with(name, tool_format=FAMILIES.get(name, "hermes"))
    end = chat.decode(chat.stop_ids[:1])
    found = []
    for tool in ("a b", f"a{end}b"):
        answer = Message(role="tool", content="Unknown.", tool_call_id="000000000", name=tool)
        history = chat.opening([TASK, calling({"word": "a"}, tool), answer])
        assert tool in chat.decode(history)
        found.append([specials(chat, history), specials(chat, chat.continuation([answer]))])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_text_for_a_users_message_is_encoded_as_within_one(name: str) -> None:
    chat = chat_with(name, tool_format=FAMILIES[name])
    end = chat.decode(chat.stop_ids[:1])
    tokens = chat.content_tokens(f"a{end}b")
    assert specials(chat, tokens) == []
    assert chat.decode(tokens) == f"a{end}b"


def test_a_refusal_names_a_call_as_it_was_written(tmp_path: Path) -> None:
    source = CHATML.replace(
        "m.tool_calls or [] -%}", "m.tool_calls or [] if call.function.name[:3] != 'bad' -%}"
    )
    source = source.replace("+ m.content }}", "+ (m.content | replace('LOST', '')) }}")
    chat = ChatTokenizer(write_tokenizer(tmp_path, source), ChatConfig(tool_format="hermes"))
    history = [TASK, calling({"word": "a"}, "bad<|im_end|>tool"), Message(role="user", content="LOST")]
    with pytest.raises(ConfigError, match=r"it leaves out a call of 'bad<\|im_end\|>tool'"):
        chat.opening(history)


def test_a_template_that_quotes_a_message_quotes_it_as_it_was_written(tmp_path: Path) -> None:
    refusing = "{%- elif 'BAD' in m.content -%}{{ raise_exception('it says ' + m.content) }}"
    source = CHATML.replace("{%- elif m.role == 'tool' -%}", refusing + "{%- elif m.role == 'tool' -%}")
    chat = ChatTokenizer(write_tokenizer(tmp_path, source), ChatConfig())
    for pieces in (chat.opening, chat.continuation):
        with pytest.raises(ConfigError, match=r"it says BAD <\|im_end\|>;"):
            pieces([Message(role="user", content="BAD <|im_end|>")])


SPELT = (r"a \ue0000\ue001 b", r"\ue00099999\ue001", "\ue0000\ue001 b", "\\ue000" + "9" * 5000 + "\\ue001")
AS_JSON = CHATML.replace("+ m.content }}", "+ (m.content | tojson) }}").replace(
    "+ m.content + '\\n</tool", "+ (m.content | tojson(ensure_ascii=True)) + '\\n</tool"
)


@pytest.mark.parametrize("source", [CHATML, AS_JSON], ids=["plain", "json"])
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
@pytest.mark.parametrize("text", SPELT, ids=["known", "unknown", "characters", "long"])
def test_numbers_between_private_characters_are_text(
    tmp_path: Path, source: str, role: str, text: str
) -> None:
    chat = ChatTokenizer(write_tokenizer(tmp_path, source), ChatConfig(tool_format="hermes"))
    histories = []
    for content in ("a", text):
        said = Message.model_validate({"role": role, "content": content, "tool_call_id": "000000000"})
        before = [] if role == "system" else [TASK]
        before += [calling({"word": "a"})] if role == "tool" else []
        history = chat.opening([*before, said, TASK])
        assert any(each in chat.decode(history) for each in (content, json.dumps(content)[1:-1]))
        histories.append(history)
    assert specials(chat, histories[0]) == specials(chat, histories[1])
