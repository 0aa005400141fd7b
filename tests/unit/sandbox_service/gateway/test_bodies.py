"""Request bodies: strict JSON, bounded in size and depth."""

from __future__ import annotations

import json
import os

import pytest

from sandbox_contract.episodes import CreateInstanceRequest, StepRequest
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.bodies import LARGE_BODY, BodyParser
from sandbox_service.gateway.schema_errors import SchemaError

DEPTH = 8
VALUES = 1000
PARSER = BodyParser(DEPTH, VALUES)


def create(params: str) -> bytes:
    return b'{"environment":"e","task_id":"t","params":%s}' % params.encode()


async def refusal(body: bytes) -> ErrorCode:
    with pytest.raises(ServiceError) as caught:
        await PARSER.parse(CreateInstanceRequest, body)
    return caught.value.code


def nested(levels: int) -> str:
    return '{"a":' + "[" * levels + "]" * levels + "}"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"environment":"\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"environment":"\\ud800"}',
        b"{}{}",
    ],
    ids=["empty", "cut", "words", "not utf-8", "byte order mark", "lone surrogate", "two values"],
)
async def test_what_is_no_json_is_refused(body):
    assert await refusal(body) is ErrorCode.MALFORMED_JSON


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000])
async def test_numbers_that_are_not_finite_are_refused_where_the_schema_is_open(number):
    assert await refusal(create('{"a":[{"b":' + number + "}]}")) is ErrorCode.MALFORMED_JSON


async def test_not_a_number_is_refused_even_in_fields_that_are_ignored():
    body = b'{"instance_id":"i","message":{"role":"assistant","other":NaN}}'
    with pytest.raises(ServiceError) as caught:
        await PARSER.parse(StepRequest, body)
    assert caught.value.code is ErrorCode.MALFORMED_JSON


async def test_words_and_brackets_inside_strings_are_only_text():
    text = 'NaN Infinity "' + "[" * 500 + "\\" + '"{' * 50 + "\\\\"
    parsed = await PARSER.parse(CreateInstanceRequest, create(json.dumps({"a": text})))
    assert parsed.params == {"a": text}


async def test_depth_is_counted_outside_of_strings_and_exactly():
    assert (await PARSER.parse(CreateInstanceRequest, create(nested(DEPTH - 2)))).task_id == "t"
    assert await refusal(create(nested(DEPTH - 1))) is ErrorCode.JSON_TOO_DEEP
    wide = '{"a":[' + ",".join(["[]"] * 400) + "]}"
    assert (await PARSER.parse(CreateInstanceRequest, create(wide))).task_id == "t"


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 100_000, b'"\\"' * 100_000 + b"[" * 100])
async def test_deep_bodies_are_refused_before_they_are_parsed(body):
    assert await refusal(body) in (
        ErrorCode.JSON_TOO_DEEP,
        ErrorCode.MALFORMED_JSON,
        ErrorCode.BODY_TOO_LARGE,
    )


async def test_field_errors_name_the_field_and_do_not_echo_huge_input():
    huge = "x" * 100_000
    body = json.dumps({"environment": 5, "task_id": [], huge: 1}).encode()
    with pytest.raises(SchemaError) as caught:
        await PARSER.parse(CreateInstanceRequest, body)
    problem = caught.value.problem("r")
    assert [each.split(":")[0] for each in problem.errors[:2]] == ["environment", "task_id"]
    assert len(problem.model_dump_json()) < 2000


def values(count: int) -> bytes:
    """A body of so many JSON values: the object, its three members, and numbers."""
    return create('{"a":[' + ",".join(["1"] * (count - 5)) + "]}")


async def test_a_body_may_have_so_many_values_and_no_more():
    assert (await PARSER.parse(CreateInstanceRequest, values(VALUES))).task_id == "t"
    assert await refusal(values(VALUES + 10)) is ErrorCode.BODY_TOO_LARGE


@pytest.mark.parametrize(
    "many",
    ["[" + "1," * 10_000 + "1]", "[" + "{}," * 10_000 + "{}]", "[" + '"",' * 10_000 + '""]'],
    ids=["numbers", "objects", "strings"],
)
async def test_a_body_of_very_many_values_is_refused_before_it_is_parsed(many):
    body = create('{"a":' + many + "}")
    assert await refusal(body) is ErrorCode.BODY_TOO_LARGE


async def test_commas_and_brackets_of_a_long_text_are_not_values():
    text = 'a, b, [c], {d}, "e", \\ ' * 5000
    parsed = await PARSER.parse(CreateInstanceRequest, create(json.dumps({"a": text})))
    assert parsed.params == {"a": text}


@pytest.mark.parametrize("shift", range(8))
async def test_a_text_is_no_structure_wherever_a_piece_of_a_large_body_ends(shift):
    text = "." * shift + '\\\\"[{,\\' * 100_000
    body = create(json.dumps({"a": text}))
    assert (await PARSER.parse(CreateInstanceRequest, body)).params == {"a": text}
    assert await refusal(create(json.dumps({"a": text, "b": [[]] * VALUES}))) is ErrorCode.BODY_TOO_LARGE


async def test_a_large_body_is_parsed_in_another_process_and_a_small_one_here():
    large, small = create(json.dumps({"a": "x" * LARGE_BODY})), create("{}")
    assert (await PARSER.parse(CreateInstanceRequest, large)).task_id == "t"
    assert await PARSER.read(CreateInstanceRequest, large, process_of) != os.getpid()
    assert await PARSER.read(CreateInstanceRequest, small, process_of) == os.getpid()
    assert await PARSER.apply(process_of, large) != os.getpid()


def process_of(_):
    return os.getpid()


@pytest.mark.parametrize(
    ("call", "kind"), [(1, "model_type"), ({"function": {"name": "f"}}, "too_long")], ids=["wrong", "right"]
)
async def test_a_list_of_too_many_tool_calls_is_one_error_and_not_one_for_each(call, kind):
    parser = BodyParser(DEPTH, 1_000_000)
    calls = {"instance_id": "i", "message": {"role": "assistant", "tool_calls": [call] * 50_000}}
    with pytest.raises(SchemaError) as caught:
        await parser.parse(StepRequest, json.dumps(calls).encode())
    assert [each.kind for each in caught.value.fields] == [kind]


async def test_thousands_of_mismatches_are_counted_and_not_listed():
    body = json.dumps({f"field{index}": 1 for index in range(5000)}).encode()
    with pytest.raises(SchemaError) as caught:
        await BodyParser(DEPTH, 10_000).parse(CreateInstanceRequest, body)
    assert "5002 mismatches" in caught.value.problem("r").detail


async def test_at_most_sixteen_field_errors_are_listed():
    body = json.dumps({f"field{index}": 1 for index in range(900)}).encode()
    with pytest.raises(SchemaError) as caught:
        await PARSER.parse(CreateInstanceRequest, body)
    assert len(caught.value.fields) == 16
