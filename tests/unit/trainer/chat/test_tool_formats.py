"""Tool calls as families of models write them: read leniently, never made up."""

import json

import pytest

from sandbox_contract.messages import (
    MOST_TOOL_CALLS,
    FunctionCall,
    FunctionSchema,
    Message,
    Tool,
    ToolCall,
)
from trainer.chat.tool_formats import TOOL_FORMATS

CALLING = tuple(sorted(set(TOOL_FORMATS) - {"text"}))
TOOL = Tool(function=FunctionSchema(name="look", description="Look it up."))


def calls_of(message: Message) -> list[tuple[str, object]]:
    return [
        (call.function.name, json.loads(str(call.function.arguments))) for call in message.tool_calls or ()
    ]


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(function=FunctionCall(name=name, arguments=json.dumps(arguments)))


@pytest.mark.parametrize(
    ("family", "text", "content", "calls"),
    [
        (
            "hermes",
            '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>',
            None,
            [("f", {"x": 1})],
        ),
        ("hermes", 'So.\n<tool_call>{"name": "f"}</tool_call>', "So.", [("f", {})]),
        ("hermes", '<tool_call>{"name": "f", "parameters": {"x": 1}}', None, [("f", {"x": 1})]),
        (
            "hermes",
            '<tool_call>{"name": "f"}</tool_call>\n<tool_call>{"name": "g"}</tool_call> Done.',
            "Done.",
            [("f", {}), ("g", {})],
        ),
        (
            "hermes",
            '<tool_call>{"name": "f", "arguments": {"x": "</tool_call>"}}</tool_call>',
            None,
            [("f", {"x": "</tool_call>"})],
        ),
        (
            "hermes",
            '<tool_call>{"name": "f", "arguments": {"x": "a\nb"}}</tool_call>',
            None,
            [("f", {"x": "a\nb"})],
        ),
        (
            "hermes",
            '<tool_call>{"name": "f", "arguments": "{\\"x\\": 1}"}</tool_call>',
            None,
            [("f", {"x": 1})],
        ),
        (
            "hermes",
            '<think><tool_call>{"name": "draft"}</tool_call></think>\n<tool_call>{"name": "f"}</tool_call>',
            '<think><tool_call>{"name": "draft"}</tool_call></think>',
            [("f", {})],
        ),
        ("llama3", '{"name": "f", "parameters": {"x": 1}}', None, [("f", {"x": 1})]),
        ("llama3", '<|python_tag|>{"name": "f", "arguments": {}}', None, [("f", {})]),
        ("llama3", '{"name": "f"}; {"name": "g"}', None, [("f", {}), ("g", {})]),
        ("llama3", 'I see.<|python_tag|>{"name": "f"}', "I see.", [("f", {})]),
        ("llama3", '<|python_start|>{"name": "f"}<|python_end|>', None, [("f", {})]),
        (
            "llama3",
            '<|python_start|>So.<|python_end|>{"name": "f"}{"name": "g"}',
            "So.",
            [("f", {}), ("g", {})],
        ),
        ("mistral", '[TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}}]', None, [("f", {"x": 1})]),
        ("mistral", 'So.[TOOL_CALLS][{"name": "f"}, {"name": "g"}]', "So.", [("f", {}), ("g", {})]),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[ARGS]{}', None, [("f", {"x": 1}), ("g", {})]),
        ("mistral", '[TOOL_CALLS]f{"x": 1}', None, [("f", {"x": 1})]),
        ("pythonic", '[f(x=1, y="a")]', None, [("f", {"x": 1, "y": "a"})]),
        (
            "pythonic",
            "[a.b(x=[1, {'k': None}], y=true, z=-1), g()]",
            None,
            [("a.b", {"x": [1, {"k": None}], "y": True, "z": -1}), ("g", {})],
        ),
        ("pythonic", "<|python_start|>[f()]<|python_end|>", None, [("f", {})]),
        (
            "qwen3_coder",
            "So.\n<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n<parameter=y>\na\nb\n</parameter>\n"
            "</function>\n</tool_call>",
            "So.",
            [("f", {"x": 1, "y": "a\nb"})],
        ),
        ("qwen3_coder", "<function=f>\n</function>\n</tool_call>", None, [("f", {})]),
        (
            "qwen3_coder",
            "<tool_call><function=f><parameter=x></parameter> <b>\n</parameter></function></tool_call>",
            None,
            [("f", {"x": "</parameter> <b>"})],
        ),
        (
            "glm",
            "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n<tool_call>g</tool_call>",
            None,
            [("f", {"x": 1}), ("g", {})],
        ),
        (
            "glm",
            "So.<tool_call>f<arg_key>x</arg_key><arg_value> a\n</arg_value></tool_call>",
            "So.",
            [("f", {"x": " a\n"})],
        ),
        (
            "minimax",
            '<minimax:tool_call>\n<invoke name="f">\n<parameter name="x">[1, "a"]</parameter>\n</invoke>\n'
            '<invoke name="g">\n</invoke>\n</minimax:tool_call>',
            None,
            [("f", {"x": [1, "a"]}), ("g", {})],
        ),
        (
            "deepseek_v3",
            'So.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"x": 1}\n```'
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "So.",
            [("f", {"x": 1})],
        ),
        (
            "deepseek_v31",
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"x": 1}<｜tool▁call▁end｜>'
            "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
            None,
            [("f", {"x": 1}), ("g", {})],
        ),
        (
            "kimi_k2",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.a.f:0<|tool_call_argument_begin|>"
            '{"x": 1}<|tool_call_end|><|tool_calls_section_end|>',
            None,
            [("a.f", {"x": 1})],
        ),
        (
            "harmony",
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
            '<|constrain|>json<|message|>{"x": 1}',
            "<think>Hm.</think>",
            [("f", {"x": 1})],
        ),
        ("harmony", ' to=functions.f<|channel|>commentary json<|message|>{"x": 1}', None, [("f", {"x": 1})]),
        (
            "gemma4",
            'So.<|tool_call>call:f{x:1,y:<|"|>a, b:{}<|"|>,z:[true,{k:null}]}<tool_call|>'
            "<|tool_call>call:g{}<tool_call|>",
            "So.",
            [("f", {"x": 1, "y": "a, b:{}", "z": [True, {"k": None}]}), ("g", {})],
        ),
        (
            "lfm2",
            "<|tool_call_start|>[f(x=1, y='a\nb'), g()]<|tool_call_end|>So.",
            "So.",
            [("f", {"x": 1, "y": "a\nb"}), ("g", {})],
        ),
        ("granite", '<|tool_call|>[{"name": "f", "arguments": {"x": 1}}]', None, [("f", {"x": 1})]),
        ("phi4_mini", 'functools[{"name": "f", "arguments": {"x": 1}}]', None, [("f", {"x": 1})]),
        ("phi4_mini", '<|tool_call|>[{"name": "f"}]<|/tool_call|>', None, [("f", {})]),
        (
            "cohere",
            '<think>Hm.</think><|START_ACTION|>[\n{"tool_call_id": "0", "tool_name": "f", '
            '"parameters": {"x": 1}}\n]<|END_ACTION|>',
            "<think>Hm.</think>",
            [("f", {"x": 1})],
        ),
        ("nemotron_v2", '<TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>', None, [("f", {})]),
    ],
)
def test_calls_are_read(family, text, content, calls) -> None:
    message = TOOL_FORMATS[family].parse(text)
    assert (message.role, message.content) == ("assistant", content)
    assert calls_of(message) == calls


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": {"x": }}</tool_call>'),
        ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
        ("hermes", '<tool_call>["f"]</tool_call>'),
        ("hermes", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>'),
        ("hermes", '<tool_call>{"name": "f"}</tool_call><tool_call>{"name": </tool_call>'),
        ("hermes", '<think><tool_call>{"name": "f"}</tool_call>'),
        ("hermes", "<tool_call>" + '{"name":' * 20_000),
        ("llama3", 'For example: {"name": "f", "parameters": {}}'),
        ("llama3", '{"name": "f"} and then some'),
        ("llama3", '{"name": 7}'),
        ("llama3", "<|python_tag|>print(1)"),
        ("llama3", '<|python_start|>{"name": "f"}<|python_end|> and then some'),
        ("mistral", '[{"name": "f"}]'),
        ("mistral", '[TOOL_CALLS] [{"name": "f"}, {"arguments": {}}]'),
        ("mistral", '[TOOL_CALLS] [{"name": "f"}'),
        ("mistral", "[TOOL_CALLS]f[ARGS]{"),
        ("mistral", "[TOOL_CALLS]"),
        ("pythonic", "[f(1)]"),
        ("pythonic", "[f(x=g())]"),
        ("pythonic", "[f(**{})]"),
        ("pythonic", "[f(x={1: 2})]"),
        ("pythonic", "[f(x=1e999)]"),
        ("pythonic", "[f(x=b'a')]"),
        ("pythonic", "[f(x=1), 2]"),
        ("pythonic", "[1, 2]"),
        ("pythonic", "f(x=1)"),
        ("pythonic", "[f(x=" + "(" * 20_000),
        ("pythonic", "[]"),
        ("hermes", '<tool_call>{"name": "\\ud800"}</tool_call>'),
        ("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n"),
        ("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=x>\n1\n</function>\n</tool_call>"),
        ("qwen3_coder", '<tool_call>\n{"name": "f"}\n</tool_call>'),
        ("qwen3_coder", "<tool_call><function=f></function></tool_call><tool_call>"),
        ("glm", "<tool_call>f<arg_key>x</arg_key></tool_call>"),
        ("glm", "<tool_call>f"),
        ("glm", "<tool_call><arg_key>x</arg_key><arg_value>1</arg_value></tool_call>"),
        ("minimax", '<minimax:tool_call><invoke name="f"><parameter name="x">1</invoke></minimax:tool_call>'),
        ("minimax", '<minimax:tool_call><invoke name="f"></invoke>'),
        (
            "deepseek_v3",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n[1]\n```",
        ),
        ("deepseek_v31", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"),
        ("deepseek_v31", "<｜tool▁calls▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"),
        ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>f:0{}<|tool_call_end|>"),
        ("harmony", "<|channel|>commentary to=functions.f<|message|>{"),
        ("harmony", "<|channel|>commentary to=functions.f<|message|>[1]"),
        ("gemma4", '<|tool_call>call:f{x:<|"|>a}<tool_call|>'),
        ("gemma4", "<|tool_call>call:f{x:1"),
        ("gemma4", "<|tool_call>call:f{x:" + "[" * 20_000),
        ("gemma4", "<|tool_call>f{}<tool_call|>"),
        ("lfm2", "<|tool_call_start|>[f(1)]<|tool_call_end|>"),
        ("lfm2", "[f(x=1)]"),
        ("granite", '<|tool_call|>[{"name": "f"}, 1]'),
        ("granite", '<|tool_call|>{"name": "f"}'),
        ("phi4_mini", '<|tool_call|>[{"name": "f"}'),
        ("cohere", '<|START_ACTION|>[{"parameters": {}}]<|END_ACTION|>'),
        ("nemotron_v2", "<TOOLCALL>[]</TOOLCALL>"),
    ],
)
def test_what_is_no_call_stays_in_the_text(family, text) -> None:
    message = TOOL_FORMATS[family].parse(text)
    assert (message.content, message.tool_calls) == (text, None)


@pytest.mark.parametrize("family", sorted(TOOL_FORMATS))
@pytest.mark.parametrize("text", ["", "  plain words \n", "```python\nprint(1)\n```"])
def test_plain_words_are_kept_to_the_letter(family, text) -> None:
    message = TOOL_FORMATS[family].parse(text)
    assert (message.content, message.tool_calls) == (text, None)


def test_text_is_never_read_for_calls() -> None:
    text = '<tool_call>{"name": "f"}</tool_call>'
    assert TOOL_FORMATS["text"].parse(text) == Message(role="assistant", content=text)


@pytest.mark.parametrize(
    ("family", "words"),
    [
        *((family, "") for family in CALLING),
        *((family, "First.") for family in CALLING if family != "pythonic"),
    ],
)
def test_what_is_written_is_read_again(family, words) -> None:
    made = (call("look", word="über", deep={"list": [1, None, True]}), call("stop"))
    form = TOOL_FORMATS[family]
    message = form.parse(form.render(Message(role="assistant", content=words or None, tool_calls=made)), 5)
    assert message.content == (words or None)
    assert calls_of(message) == calls_of(Message(role="assistant", tool_calls=made))
    assert [each.id for each in message.tool_calls or ()] == ["000000005", "000000006"]


@pytest.mark.parametrize("family", sorted(set(TOOL_FORMATS) - {"harmony"}))
def test_words_alone_are_written_as_they_are(family) -> None:
    assert TOOL_FORMATS[family].render(Message(role="assistant", content="Hm. ")) == "Hm. "


@pytest.mark.parametrize("family", sorted(TOOL_FORMATS))
def test_the_paragraph_names_the_tools_and_the_way_to_call_them(family) -> None:
    paragraph = TOOL_FORMATS[family].describe_tools([TOOL])
    assert '"name": "look"' in paragraph
    assert "Look it up." in paragraph
    assert "{{" not in paragraph


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (call("python", code="print(1)\n"), "```python\nprint(1)\n```"),
        (call("execute_bash", command="ls"), "```bash\nls\n```"),
        (
            call("submit", answer="95"),
            '<tool_call>{"name": "submit", "arguments": {"answer": "95"}}</tool_call>',
        ),
        (
            call("python", code="'```'"),
            '<tool_call>{"name": "python", "arguments": {"code": "\'```\'"}}</tool_call>',
        ),
    ],
)
def test_in_text_programs_are_blocks_and_other_calls_are_tagged(made, text) -> None:
    assert TOOL_FORMATS["text"].render(Message(role="assistant", tool_calls=(made,))) == text


@pytest.mark.parametrize("family", CALLING)
def test_more_calls_than_a_message_may_have_stay_text(family: str) -> None:
    form = TOOL_FORMATS[family]
    most = form.render(Message(role="assistant", tool_calls=(call("f"),) * MOST_TOOL_CALLS))
    assert len(form.parse(most).tool_calls or ()) == MOST_TOOL_CALLS
    text = form.render(
        Message.model_construct(role="assistant", tool_calls=(call("f"),) * (MOST_TOOL_CALLS + 1))
    )
    read = form.parse(text)
    assert read.tool_calls is None
    assert read.content == text


@pytest.mark.parametrize("family", ["qwen3_coder", "glm", "minimax"])
def test_schemas_tell_text_from_numbers(family: str) -> None:
    """These notations write a number and the text of a number alike."""
    types = {"word": "string", "many": "integer", "both": ["string", "null"], "any": None}
    properties = {name: {"type": kind} if kind else {} for name, kind in types.items()}
    tool = Tool(function=FunctionSchema(name="look", parameters={"properties": properties}))
    form = TOOL_FORMATS[family]
    text = form.render(
        Message(role="assistant", tool_calls=(call("look", word="7", many=7, both=None, any="7"),))
    )
    assert calls_of(form.parse(text, tools=[tool])) == [
        ("look", {"word": "7", "many": 7, "both": None, "any": 7})
    ]
    assert calls_of(form.parse(text))[0][1] == {"word": 7, "many": 7, "both": None, "any": 7}


@pytest.mark.parametrize("family", ["qwen3_coder", "glm", "minimax"])
@pytest.mark.parametrize("text", ["94016", "true", '{"version": 1.10}', "[1]", "NaN", "null "])
def test_an_optional_text_stays_text_whatever_else_it_might_be(family: str, text: str) -> None:
    """As pydantic describes ``str | None``."""
    schema = {"properties": {"text": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    tool = Tool(function=FunctionSchema(name="write", parameters=schema))
    form = TOOL_FORMATS[family]
    written = form.render(Message(role="assistant", tool_calls=(call("write", text=text),)))
    wanted = None if text.strip() == "null" else text
    assert calls_of(form.parse(written, tools=[tool])) == [("write", {"text": wanted})]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_text(number: str) -> None:
    schema = {"properties": {"many": {"type": "number"}}}
    tool = Tool(function=FunctionSchema(name="look", parameters=schema))
    written = TOOL_FORMATS["glm"].render(Message(role="assistant", tool_calls=(call("look", many=number),)))
    assert calls_of(TOOL_FORMATS["glm"].parse(written, tools=[tool])) == [("look", {"many": number})]
    hermes = f'<tool_call>{{"name": "look", "arguments": {{"many": {number}}}}}</tool_call>'
    assert TOOL_FORMATS["hermes"].parse(hermes).tool_calls is None


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<|channel|>final<|message|>Yes.", "Yes."),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
            "<think>Hm.</think>Yes.",
        ),
        ("<|channel|>analysis<|message|>Maybe to=functions.f", "<think>Maybe to=functions.f"),
        ("<|channel|>commentary<|message|>Let me see.", "Let me see."),
    ],
)
def test_channels_of_harmony_become_thoughts_and_words(text: str, content: str) -> None:
    message = TOOL_FORMATS["harmony"].parse(text)
    assert (message.content, message.tool_calls) == (content, None)


def test_marks_around_coheres_words_are_no_part_of_them() -> None:
    text = "<|START_RESPONSE|>Yes.<|END_RESPONSE|>"
    assert TOOL_FORMATS["cohere"].parse(text).content == "Yes."
