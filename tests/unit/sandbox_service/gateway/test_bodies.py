"""Request bodies: strict JSON, bounded in size and depth."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sandbox_service.contract.episodes import CreateInstanceRequest, StepRequest
from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.bodies import ClientGone, parse, read_body
from sandbox_service.gateway.refusals import SchemaError

DEPTH = 8


def create(params: str) -> bytes:
    return b'{"environment":"e","task_id":"t","params":%s}' % params.encode()


def refusal(body: bytes) -> ErrorCode:
    with pytest.raises(ServiceError) as caught:
        parse(CreateInstanceRequest, body, DEPTH)
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
def test_what_is_no_json_is_refused(body):
    assert refusal(body) is ErrorCode.MALFORMED_JSON


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000])
def test_numbers_that_are_not_finite_are_refused_where_the_schema_is_open(number):
    assert refusal(create('{"a":[{"b":' + number + "}]}")) is ErrorCode.MALFORMED_JSON


def test_not_a_number_is_refused_even_in_fields_that_are_ignored():
    body = b'{"instance_id":"i","message":{"role":"assistant","other":NaN}}'
    with pytest.raises(ServiceError) as caught:
        parse(StepRequest, body, DEPTH)
    assert caught.value.code is ErrorCode.MALFORMED_JSON


def test_words_and_brackets_inside_strings_are_only_text():
    text = 'NaN Infinity "' + "[" * 500 + "\\" + '"{' * 50 + "\\\\"
    parsed = parse(CreateInstanceRequest, create(json.dumps({"a": text})), DEPTH)
    assert parsed.params == {"a": text}


def test_depth_is_counted_outside_of_strings_and_exactly():
    assert parse(CreateInstanceRequest, create(nested(DEPTH - 2)), DEPTH).task_id == "t"
    assert refusal(create(nested(DEPTH - 1))) is ErrorCode.JSON_TOO_DEEP
    wide = '{"a":[' + ",".join(["[]"] * 100_000) + "]}"
    assert parse(CreateInstanceRequest, create(wide), DEPTH).task_id == "t"


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 100_000, b'"\\"' * 100_000 + b"[" * 100])
def test_deep_bodies_are_refused_before_they_are_parsed(body):
    assert refusal(body) in (ErrorCode.JSON_TOO_DEEP, ErrorCode.MALFORMED_JSON)


def test_field_errors_name_the_field_and_do_not_echo_huge_input():
    huge = "x" * 100_000
    body = json.dumps({"environment": 5, "task_id": [], huge: 1}).encode()
    with pytest.raises(SchemaError) as caught:
        parse(CreateInstanceRequest, body, DEPTH)
    problem = caught.value.problem("r")
    assert [each.split(":")[0] for each in problem.errors[:2]] == ["environment", "task_id"]
    assert len(problem.model_dump_json()) < 2000


def test_at_most_sixteen_field_errors_are_told():
    body = json.dumps({f"field{index}": 1 for index in range(1000)}).encode()
    with pytest.raises(SchemaError) as caught:
        parse(CreateInstanceRequest, body, DEPTH)
    assert len(caught.value.fields) == 16


def receiver(*messages: dict[str, object]):
    waiting: Iterator[dict[str, object]] = iter(messages)

    async def receive() -> dict[str, object]:
        return next(waiting)

    return receive


def chunk(body: bytes, more: bool = True) -> dict[str, object]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_chunks_is_put_together():
    receive = receiver(chunk(b"ab"), chunk(b"cd"), chunk(b"", more=False))
    assert await read_body(receive, {}, 4) == b"abcd"


async def test_a_body_over_the_limit_is_refused_while_it_streams():
    receive = receiver(chunk(b"abc"), chunk(b"de"))
    with pytest.raises(ServiceError) as caught:
        await read_body(receive, {}, 4)
    assert caught.value.code is ErrorCode.BODY_TOO_LARGE


@pytest.mark.parametrize("length", [b"5", b"9" * 400])
async def test_an_announced_length_over_the_limit_is_refused_unread(length):
    with pytest.raises(ServiceError) as caught:
        await read_body(receiver(), {b"content-length": length}, 4)
    assert caught.value.code is ErrorCode.BODY_TOO_LARGE


async def test_a_client_that_leaves_in_mid_body_leaves_nobody_to_answer():
    with pytest.raises(ClientGone):
        await read_body(receiver(chunk(b"a"), {"type": "http.disconnect"}), {}, 4)
