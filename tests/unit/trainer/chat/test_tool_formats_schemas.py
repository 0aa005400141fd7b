"""Notations that write a number and the text of a number alike take the type from the tool's schema."""

import json
from enum import StrEnum

import pytest
from pydantic import BaseModel

from sandbox_contract.messages import FunctionCall, FunctionSchema, Message, Tool, ToolCall
from trainer.chat.tool_formats import TOOL_FORMATS

FAMILIES = ["qwen3_coder", "glm", "minimax"]


class Unit(StrEnum):
    ONE = "1"
    YES = "true"


class Arguments(BaseModel):
    unit: Unit
    maybe: Unit | None = None


def read(family: str, schema: dict[str, object], **arguments: object) -> dict[str, object]:
    """Return the arguments that are read of a well-formed call."""
    form = TOOL_FORMATS[family]
    call = ToolCall(function=FunctionCall(name="f", arguments=json.dumps(arguments)))
    tool = Tool(function=FunctionSchema(name="f", parameters=schema))
    (found,) = (
        form.parse(form.render(Message(role="assistant", tool_calls=(call,))), tools=[tool]).tool_calls or ()
    )
    return json.loads(str(found.function.arguments))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_texts_of_an_enumeration_stay_texts(family: str) -> None:
    given = {"unit": "1", "maybe": "true"}
    found = read(family, Arguments.model_json_schema(), **given)
    assert found == given
    assert Arguments.model_validate(found).unit is Unit.ONE


@pytest.mark.parametrize(
    ("described", "text", "value"),
    [
        ({"$ref": "#/definitions/Text"}, "7", "7"),
        ({"$ref": "#/definitions/a~1b~0c"}, "7", "7"),
        ({"allOf": [{"$ref": "#/definitions/Text"}], "default": "1"}, "7", "7"),
        ({"enum": ["7", "8"]}, "7", "7"),
        ({"const": "7"}, "7", "7"),
        ({"enum": [7, 8]}, "7", 7),
        ({"enum": ["7", None]}, "null", None),
        ({"$ref": "#/definitions/Number"}, "7", 7),
        ({"$ref": "#/definitions/Nothing"}, "7", 7),
        ({"$ref": "https://example.com/schema"}, "7", 7),
        ({"$ref": "#/definitions/Circle"}, "7", 7),
        (True, "7", 7),
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_types_are_found_behind_references_and_values(family: str, described, text: str, value) -> None:
    circle = {"anyOf": [{"$ref": "#/definitions/Circle"}, {"$ref": "#/definitions/Circle"}]}
    text_type = {"type": "string"}
    definitions = {"Text": text_type, "a/b~c": text_type, "Number": {"type": "integer"}, "Circle": circle}
    assert read(family, {"properties": {"x": described}, "definitions": definitions}, x=text) == {"x": value}


def test_a_schema_may_refer_to_all_of_itself() -> None:
    schema = {"$ref": "#/$defs/Args", "$defs": {"Args": {"properties": {"x": {"type": "string"}}}}}
    assert read("glm", schema, x="7") == {"x": "7"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean", "True", True),
        ("boolean", "FALSE", False),
        (["boolean", "null"], " true ", True),
        (["boolean", "string"], "False", False),
        ("boolean", "yes", "yes"),
        ("string", "True", "True"),
        ("integer", "True", "True"),
        (None, "True", "True"),
    ],
)
def test_booleans_are_read_however_they_are_capitalised(
    family: str, kind: object, text: str, value: object
) -> None:
    schema = {"type": "object", "properties": {"on": {} if kind is None else {"type": kind}}}
    found = read(family, schema, on=text)["on"]
    assert (found.strip() if isinstance(found, str) else found) == value
    assert type(found) is type(value)


def test_gemma_may_capitalise_booleans() -> None:
    text = '<|tool_call>call:f{on:True,off:[False,true],truth:<|"|>True<|"|>}<tool_call|>'
    (call,) = TOOL_FORMATS["gemma4"].parse(text).tool_calls or ()
    assert json.loads(str(call.function.arguments)) == {"on": True, "off": [False, True], "truth": "True"}


@pytest.mark.parametrize("family", sorted(TOOL_FORMATS))
def test_letters_stay_letters_in_the_text_of_arguments(family: str) -> None:
    form = TOOL_FORMATS[family]
    call = ToolCall(id="000000000", function=FunctionCall(name="f", arguments='{"word": "\u00e9 \u6771"}'))
    for made in form.parse(form.render(Message(role="assistant", tool_calls=(call,)))).tool_calls or ():
        assert "\u00e9 \u6771" in str(made.function.arguments)


def test_a_lone_surrogate_is_no_part_of_arguments() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"word": "a\\ud800"}}</tool_call>'
    (call,) = TOOL_FORMATS["hermes"].parse(text).tool_calls or ()
    assert json.loads(str(call.function.arguments)) == {"word": "a?"}
