"""Chat messages as models and servers write them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sandbox_contract.messages import Message


def taken(**fields: object) -> Message:
    return Message.model_validate({"role": "assistant", **fields})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hello", "hello"),
        (None, None),
        ([], ""),
        ([{"type": "text", "text": "hello"}], "hello"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b", "annotations": []}], "a\nb"),
    ],
)
def test_a_content_is_a_text_or_a_list_of_text_parts(content: object, text: str | None) -> None:
    assert taken(content=content).content == text


@pytest.mark.parametrize(
    "part", ["text", None, 5, {}, {"type": "text"}, {"type": "text", "text": 5}, {"type": "image_url"}]
)
def test_parts_that_are_no_text_are_refused_with_what_is_taken(part: object) -> None:
    with pytest.raises(ValidationError, match="a part of the content must be") as refused:
        taken(content=[part] * 3)
    assert refused.value.error_count() == 1


def test_a_content_has_a_bounded_number_of_parts() -> None:
    with pytest.raises(ValidationError, match="at most 1024 parts"):
        taken(content=[{"type": "text", "text": "a"}] * 1025)


@pytest.mark.parametrize("function", [{"name": "f"}, {"name": "f", "arguments": None}])
def test_arguments_that_are_missing_or_null_are_none(function: dict[str, object]) -> None:
    (call,) = taken(tool_calls=[{"function": function}]).tool_calls or ()
    assert call.function.arguments == "{}"


def test_reasoning_is_kept_and_other_fields_are_ignored() -> None:
    message = taken(content="x", reasoning_content="a", reasoning="b", refusal=None, annotations=[])
    assert message.model_dump(exclude_unset=True) == {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "a",
        "reasoning": "b",
    }
