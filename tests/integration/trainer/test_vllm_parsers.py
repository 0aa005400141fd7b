"""Our parsers of tool calls beside vLLM's, on texts that are well-formed and texts that are not.

vLLM's are lenient: of a call that is cut off, those for Qwen3-Coder, GLM, Gemma 4 and DeepSeek return what
they have, even a tool whose name is half written. Ours decide what an environment runs, and leave a malformed
text to the environment, which can say what is wrong.
"""

from __future__ import annotations

import json

import pytest

from sandbox_contract.messages import FunctionCall, FunctionSchema, Message, Tool, ToolCall
from tests.harness.template_families import chat_with
from trainer.chat.tool_formats import TOOL_FORMATS
from trainer.chat.tool_formats.base import arguments_of

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch and others, as vLLM is imported
]
pytest.importorskip("vllm")

PROPERTIES = {
    "word": {"type": "string"},
    "times": {"type": "integer"},
    "more": {"type": "array"},
    "exact": {"type": "boolean"},
}
SCHEMA = {"type": "object", "properties": PROPERTIES}
TOOL = Tool(function=FunctionSchema(name="look_up", description="Look it up.", parameters=SCHEMA))
PAIRS = {
    "hermes": ("hermes", "qwen3"),
    "qwen3_coder": ("qwen3_coder", "qwen3_5_nothink"),
    "glm": ("glm45", "glm4moe"),
    "deepseek_v3": ("deepseek_v3", "deepseekv3"),
    "gemma4": ("gemma4", "gemma4_v5"),
    "lfm2": ("lfm2", "lfm2_2_5_v2"),
}
"""Our word for a notation, vLLM's, and a template whose tokenizer knows its marks."""


def made(*arguments: dict[str, object], words: str = "") -> Message:
    calls = tuple(
        ToolCall(function=FunctionCall(name="look_up", arguments=json.dumps(each))) for each in arguments
    )
    return Message(role="assistant", content=words or None, tool_calls=calls)


TYPED = made({"times": -1, "more": [1, "a", None, {"k": True}]})
WELL_FORMED = [
    made({}),
    made({"word": "a falcon"}),
    made({"word": "é 語 \N{GRINNING FACE}", "times": 3}),
    TYPED,
    made({"word": 'a "quoted" word, with {braces} and [brackets]'}),
    made({"word": "a"}, {"word": "b", "times": 2}),
    made({"word": "a"}, words="Let me look."),
    made({"exact": True}),
    made({"exact": False, "word": "True"}),
]
CAPITALISED = {
    "qwen3_coder": "<tool_call>\n<function=look_up>\n<parameter=exact>\nTrue\n</parameter>\n"
    "</function>\n</tool_call>",
    "gemma4": "<|tool_call>call:look_up{exact:True}<tool_call|>",
}
"""Booleans as Python spells them, as some templates write them."""


def ours(form: str, text: str) -> list[tuple[str, object]]:
    read = TOOL_FORMATS[form].parse(text, tools=[TOOL])
    return [(call.function.name, arguments_of(call)) for call in read.tool_calls or ()]


def theirs(form: str, text: str) -> list[tuple[str, object]]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.tool_parsers import ToolParserManager

    name, template = PAIRS[form]
    request = ChatCompletionRequest.model_validate(
        {
            "model": "m",
            "messages": [{"role": "user", "content": "."}],
            "tools": [TOOL.model_dump(mode="json")],
        }
    )
    tokenizer = chat_with(template).tokenizer
    parser = ToolParserManager.get_tool_parser(name)(tokenizer, request.tools)
    read = parser.extract_tool_calls(text, request)
    return [(call.function.name, json.loads(call.function.arguments)) for call in read.tool_calls or ()]


@pytest.mark.parametrize("form", sorted(PAIRS))
@pytest.mark.parametrize("message", WELL_FORMED, ids=range(len(WELL_FORMED)))
def test_both_read_the_same_calls_of_a_text_that_is_well_formed(form: str, message: Message) -> None:
    text = TOOL_FORMATS[form].render(message)
    if (form, message) == ("gemma4", TYPED):
        # vLLM 0.32 makes text of what an array holds, unless the schema has a type for its items.
        assert ours(form, text) == [("look_up", json.loads(str(TYPED.tool_calls[0].function.arguments)))]
    else:
        assert ours(form, text) == theirs(form, text)
    assert len(ours(form, text)) == len(message.tool_calls or ())


@pytest.mark.parametrize("form", sorted(CAPITALISED))
def test_both_read_booleans_that_are_capitalised(form: str) -> None:
    assert ours(form, CAPITALISED[form]) == theirs(form, CAPITALISED[form]) == [("look_up", {"exact": True})]


@pytest.mark.parametrize("form", sorted(PAIRS))
def test_a_text_that_is_cut_off_has_no_call_of_which_vllm_knows_nothing(form: str) -> None:
    text = TOOL_FORMATS[form].render(made({"word": "a falcon", "times": 2}, words="So."))
    for end in range(0, len(text), 5):
        read = ours(form, text[:end])
        # Hermes: the JSON is whole, and models forget the closing tag; vLLM wants it whole or not at all.
        whole = form == "hermes" and "}}" in text[:end]
        assert not read or whole or read == theirs(form, text[:end])
