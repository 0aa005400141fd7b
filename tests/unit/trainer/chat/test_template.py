"""Parts that a template leaves out are noticed, and its further arguments reach it."""

from itertools import product
from pathlib import Path

import pytest

from sandbox_contract.messages import FunctionCall, FunctionSchema, Message, Tool, ToolCall
from tests.harness.chat_templates import CHATML, write_tokenizer
from tests.harness.template_families import chat_with, mistral_names, template_text, trl_names
from trainer.chat import ChatTokenizer
from trainer.chat.arguments import known_arguments
from trainer.config.model import ChatConfig
from trainer.errors import ConfigError

SYSTEM = Message(role="system", content="Be brief.")
TASK = Message(role="user", content="What is a kestrel?")
TOOL = Tool(function=FunctionSchema(name="look_up", description="Look it up."))
WITHOUT_SYSTEM = CHATML.replace(
    "{%- for m in messages -%}", "{%- for m in messages if m.role != 'system' -%}"
)
WITHOUT_TOOLS = CHATML.replace("m.role == 'system' and tools", "false")


def chat_of(folder: Path, source: str, **config: object) -> ChatTokenizer:
    return ChatTokenizer(write_tokenizer(folder, source), ChatConfig.model_validate(config))


def test_a_system_prompt_that_the_template_leaves_out_is_told_by_the_user(tmp_path: Path) -> None:
    chat = chat_of(tmp_path, WITHOUT_SYSTEM)
    text = chat.decode(chat.opening([SYSTEM, TASK]))
    assert "<|im_start|>user\nBe brief.\n\nWhat is a kestrel?<|im_end|>" in text


def test_tools_that_the_template_leaves_out_are_told_in_the_prompt(tmp_path: Path, caplog) -> None:
    chat = chat_of(tmp_path, WITHOUT_TOOLS)
    for _ in range(2):
        text = chat.decode(chat.opening([SYSTEM, TASK], [TOOL]))
        assert '"look_up"' in text
    assert caplog.text.count('tools are rendered into the system prompt, as with chat.tools="prompt"') == 1


def test_a_template_that_reads_the_arguments_of_tools_is_one_that_tells_them(tmp_path: Path, caplog) -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string", "description": "What."}}}
    tool = Tool(function=FunctionSchema(name="look_up", description="Look it up.", parameters=schema))
    source = CHATML.replace(
        "(tool | tojson)",
        "tool.function.name + '(' + (tool.function.parameters.properties.keys() | join(', ')) + ')'",
    )
    chat = chat_of(tmp_path, source)
    assert "<tools>\nlook_up(word)\n</tools>" in chat.decode(chat.opening([SYSTEM, TASK], [tool]))
    assert "rendered into the system prompt" not in caplog.text


def test_words_that_a_template_leaves_out_in_every_form_are_an_error(tmp_path: Path) -> None:
    chat = chat_of(tmp_path, CHATML.replace("+ m.content }}", "+ m.content.replace('kestrel', '') }}"))
    with pytest.raises(
        ConfigError, match=r"leaves out the content of a message of role 'user'.*chat\.template"
    ):
        chat.opening([TASK])


def test_a_short_answer_that_is_left_out_is_noticed_beside_a_question_that_contains_it(
    tmp_path: Path,
) -> None:
    once = "{%- elif m.role == 'user' and loop.index0 and messages[loop.index0 - 1].role == 'user' -%}"
    chat = chat_of(
        tmp_path, CHATML.replace("{%- elif m.role == 'tool' -%}", once + "{%- elif m.role == 'tool' -%}")
    )
    question, answer = "Do you take door 1 or 2?", "2"
    history = [SYSTEM, Message(role="user", content=question), Message(role="user", content=answer)]
    text = chat.decode(chat.opening(history))
    assert f"<|im_start|>user\n{question}\n\n{answer}<|im_end|>" in text, "joined, which the template renders"


def test_short_words_that_a_template_leaves_out_in_every_form_are_an_error(tmp_path: Path) -> None:
    early = "{%- elif m.role == 'user' and loop.index0 > 2 -%}"
    chat = chat_of(
        tmp_path, CHATML.replace("{%- elif m.role == 'tool' -%}", early + "{%- elif m.role == 'tool' -%}")
    )
    numbers = [
        Message(role="user", content=content) for content in ("Choose among 41, 42 and 43.", "42", "43")
    ]
    history = [
        SYSTEM,
        *(said for each in numbers for said in (each, Message(role="assistant", content="Sure?"))),
    ]
    with pytest.raises(ConfigError, match="leaves out the content of a message of role 'user'"):
        chat.opening(history)


def test_words_that_are_trimmed_or_escaped_are_there(tmp_path: Path) -> None:
    chat = chat_of(tmp_path, CHATML.replace("+ m.content }}", "+ (m.content | trim | tojson) }}"))
    task = Message(role="user", content='\n "What"\tis\n a kestrel?\n')
    assert '\\"What\\"' in chat.decode(chat.opening([task]))


def test_calls_that_a_template_leaves_out_are_written_as_text(tmp_path: Path) -> None:
    source = CHATML.replace("m.tool_calls or []", "[]")
    chat = chat_of(tmp_path, source, tool_format="hermes")
    function = FunctionCall(name="look_up", arguments='{"word": "a"}')
    called = Message(
        role="assistant", content="So.", tool_calls=(ToolCall(id="000000000", function=function),)
    )
    answer = Message(role="tool", content="A bird.", tool_call_id="000000000", name="look_up")
    text = chat.decode(chat.opening([TASK, called, answer]))
    assert 'So.\n<tool_call>\n{"name": "look_up", "arguments": {"word": "a"}}\n</tool_call><|im_end|>' in text
    assert "A bird." in text


def called(*words: str, content: str | None = None) -> Message:
    calls = [
        ToolCall(id=f"{n:09d}", function=FunctionCall(name="look_up", arguments={"word": word}))
        for n, word in enumerate(words)
    ]
    return Message(role="assistant", content=content, tool_calls=tuple(calls))


def answers(*words: str) -> list[Message]:
    return [
        Message(role="tool", content=word, tool_call_id=f"{n:09d}", name="look_up")
        for n, word in enumerate(words)
    ]


@pytest.mark.parametrize("mode", ["template", "prompt"])
def test_a_call_that_is_left_out_is_noticed_beside_tools_of_its_name(tmp_path: Path, mode: str) -> None:
    source = CHATML.replace("m.tool_calls or []", "([] if m.content else m.tool_calls) or []")
    chat = chat_of(tmp_path, source, tool_format="hermes", tools=mode)
    history = [SYSTEM, TASK, called("osprey", content="So."), *answers("osprey")]
    text = chat.decode(chat.opening(history, [TOOL]))
    assert '"arguments": {"word": "osprey"}' in text


def test_several_calls_are_messages_of_their_own_for_a_template_that_renders_the_first(
    tmp_path: Path,
) -> None:
    source = CHATML.replace("m.tool_calls or []", "(m.tool_calls or [])[:1]")
    chat = chat_of(tmp_path, source, tool_format="hermes")
    history = [TASK, called("a", "b", content="So."), *answers("A", "B"), TASK]
    text = chat.decode(chat.opening(history))
    parts = ["So.", '"word": "a"', "<tool_response>\nA", '"word": "b"', "<tool_response>\nB", "kestrel"]
    assert sorted(parts, key=text.rfind) == parts
    assert chat.decode(chat.turn(called("a", "b"))).count("<|im_end|>") == 1


def test_arguments_that_are_an_object_are_text_for_a_template_that_takes_text(tmp_path: Path) -> None:
    source = CHATML.replace("(call.function.arguments | tojson) + '", "call.function.arguments + '")
    chat = chat_of(tmp_path, source, tool_format="hermes")
    function = FunctionCall(name="look_up", arguments='{"word": "\u00e9"}')
    as_text = Message(role="assistant", tool_calls=(ToolCall(id="000000000", function=function),))
    histories = [chat.opening([TASK, each, *answers("A")]) for each in (called("\u00e9"), as_text)]
    assert histories[0] == histories[1]


CUTTING = ["deepseek_r1_distill", "deepseek_v3_1", "deepseekv3", "lfm2_2_5", "nemotron_3_nano"]


@pytest.mark.parametrize("calls", [False, True], ids=["words", "calls"])
@pytest.mark.parametrize("name", CUTTING)
def test_words_that_mention_the_mark_of_a_thought_are_not_cut(name: str, calls: bool) -> None:
    chat = chat_with(name, tool_format="hermes")
    words = "split at </think> and keep the rest"
    content = f"<think>\nHm.\n</think>\n\n{words}"
    said = called("osprey", content=content) if calls else Message(role="assistant", content=content)
    after = answers("A") if calls else [TASK]
    text = chat.decode(chat.opening([TASK, said, *after]))
    assert words in text
    assert "osprey" in text or not calls


@pytest.mark.parametrize(
    ("name", "content"),
    [("ministral3", ""), *product(mistral_names(), ["", "<think>\n\n</think>\n"])],
)
def test_a_turn_without_words_is_rendered(name: str, content: str) -> None:
    chat = chat_with(name)
    turns = [Message(role="assistant", content=each) for each in ("WORDS", content)]
    spoken, silent = (chat.decode(chat.opening([TASK, turn, TASK])) for turn in turns)
    assert silent in (spoken.replace("WORDS", ""), spoken.replace("WORDS", content))


def test_arguments_of_the_configuration_reach_the_template() -> None:
    heads = {
        thinking: chat_with("qwen3", template_kwargs={"enable_thinking": thinking}).opening([TASK])
        for thinking in (True, False)
    }
    chat = chat_with("qwen3")
    assert chat.decode(heads[False]) == chat.decode(heads[True]) + "<think>\n\n</think>\n\n"
    effort = chat_with("gptoss", template_kwargs={"reasoning_effort": "high"})
    assert "Reasoning: high" in effort.decode(effort.opening([TASK]))


def test_an_argument_that_the_template_does_not_mention_is_reported_with_those_that_it_does(caplog) -> None:
    chat_with("qwen3", template_kwargs={"enable_thinking": False})
    assert "template_kwargs" not in caplog.text
    chat_with("qwen3", template_kwargs={"thinking": False})
    assert "does not mention 'thinking'; its arguments are: enable_thinking" in caplog.text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("qwen2_5", set()),
        ("qwen3", {"enable_thinking"}),
        ("gptoss", {"builtin_tools", "model_identity", "reasoning_effort"}),
        ("gemma4_v5", {"enable_thinking", "preserve_thinking"}),
        ("nemotron_3_nano", {"enable_thinking", "truncate_history_thinking"}),
    ],
)
def test_a_templates_arguments_are_read_from_its_text(name: str, arguments: set[str]) -> None:
    own = {"reasoning_content", "content", "system_message"}  # asked for, and set by the template itself
    assert arguments <= known_arguments(template_text(name)) <= arguments | own


def test_every_template_of_trl_is_parsed() -> None:
    for name in trl_names():
        known_arguments(template_text(name))
