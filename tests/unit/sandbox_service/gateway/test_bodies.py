"""Request bodies: strict JSON, bounded in size and depth."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from local_processes.work_process import WorkProcess
from sandbox_contract.episodes import CreateInstanceRequest, StepRequest
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import OverCapacityError, ServiceError
from sandbox_service.gateway.bodies import LARGE_BODY, BodyParser
from sandbox_service.gateway.schema_errors import SchemaError
from tests.harness.waiting import settle

DEPTH = 8
VALUES = 1000
PARSER = BodyParser(DEPTH, VALUES)


def create(params: str) -> bytes:
    return b'{"environment":"e","task_id":"t","params":%s}' % params.encode()


async def refusal(body: bytes) -> ErrorCode:
    with pytest.raises(ServiceError) as caught:
        await PARSER.parse("t", CreateInstanceRequest, body)
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
        await PARSER.parse("t", StepRequest, body)
    assert caught.value.code is ErrorCode.MALFORMED_JSON


async def test_words_and_brackets_inside_strings_are_only_text():
    text = 'NaN Infinity "' + "[" * 500 + "\\" + '"{' * 50 + "\\\\"
    parsed = await PARSER.parse("t", CreateInstanceRequest, create(json.dumps({"a": text})))
    assert parsed.params == {"a": text}


async def test_depth_is_counted_outside_of_strings_and_exactly():
    assert (await PARSER.parse("t", CreateInstanceRequest, create(nested(DEPTH - 2)))).task_id == "t"
    assert await refusal(create(nested(DEPTH - 1))) is ErrorCode.JSON_TOO_DEEP
    wide = '{"a":[' + ",".join(["[]"] * 400) + "]}"
    assert (await PARSER.parse("t", CreateInstanceRequest, create(wide))).task_id == "t"


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
        await PARSER.parse("t", CreateInstanceRequest, body)
    problem = caught.value.problem("r")
    assert [each.split(":")[0] for each in problem.errors[:2]] == ["environment", "task_id"]
    assert len(problem.model_dump_json()) < 2000


def values(count: int) -> bytes:
    """A body of so many JSON values: the object, its three members, and numbers."""
    return create('{"a":[' + ",".join(["1"] * (count - 5)) + "]}")


async def test_a_body_may_have_so_many_values_and_no_more():
    assert (await PARSER.parse("t", CreateInstanceRequest, values(VALUES))).task_id == "t"
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
    parsed = await PARSER.parse("t", CreateInstanceRequest, create(json.dumps({"a": text})))
    assert parsed.params == {"a": text}


@pytest.mark.parametrize("shift", range(8))
async def test_a_text_is_no_structure_wherever_a_piece_of_a_large_body_ends(shift):
    text = "." * shift + '\\\\"[{,\\' * 100_000
    body = create(json.dumps({"a": text}))
    assert (await PARSER.parse("t", CreateInstanceRequest, body)).params == {"a": text}
    assert await refusal(create(json.dumps({"a": text, "b": [[]] * VALUES}))) is ErrorCode.BODY_TOO_LARGE


async def test_a_large_body_is_parsed_in_another_process_and_a_small_one_here():
    large, small = create(json.dumps({"a": "x" * LARGE_BODY})), create("{}")
    assert (await PARSER.parse("t", CreateInstanceRequest, large)).task_id == "t"
    assert await PARSER.read("t", CreateInstanceRequest, large, process_of) != os.getpid()
    assert await PARSER.read("t", CreateInstanceRequest, small, process_of) == os.getpid()
    assert await PARSER.apply("t", process_of, large) != os.getpid()


def process_of(_):
    return os.getpid()


@pytest.mark.parametrize(
    ("call", "kind"), [(1, "model_type"), ({"function": {"name": "f"}}, "too_long")], ids=["wrong", "right"]
)
async def test_a_list_of_too_many_tool_calls_is_one_error_and_not_one_for_each(call, kind):
    parser = BodyParser(DEPTH, 1_000_000)
    calls = {"instance_id": "i", "message": {"role": "assistant", "tool_calls": [call] * 50_000}}
    with pytest.raises(SchemaError) as caught:
        await parser.parse("t", StepRequest, json.dumps(calls).encode())
    assert [each.kind for each in caught.value.fields] == [kind]


async def test_thousands_of_mismatches_are_counted_and_not_listed():
    body = json.dumps({f"field{index}": 1 for index in range(5000)}).encode()
    with pytest.raises(SchemaError) as caught:
        await BodyParser(DEPTH, 10_000).parse("t", CreateInstanceRequest, body)
    assert "5002 mismatches" in caught.value.problem("r").detail


async def test_at_most_sixteen_field_errors_are_listed():
    body = json.dumps({f"field{index}": 1 for index in range(900)}).encode()
    with pytest.raises(SchemaError) as caught:
        await PARSER.parse("t", CreateInstanceRequest, body)
    assert len(caught.value.fields) == 16


class HeldProcess(WorkProcess):
    """Works here, and on each piece of work when it is let."""

    def __init__(self) -> None:
        super().__init__("held")
        self.begun: list[str] = []
        self.let = asyncio.Semaphore(0)

    async def run(self, function, *arguments):
        (body,) = [each for each in arguments if isinstance(each, bytes)]
        self.begun.append(json.loads(body)["task_id"])
        async with self.let:
            return function(*arguments)


def large_request(name: str) -> bytes:
    text = {"environment": "e", "task_id": name, "params": {"a": "x" * LARGE_BODY}}
    return json.dumps(text).encode()


async def test_large_requests_of_one_tenant_delay_mostly_its_own():
    process = HeldProcess()
    parser = BodyParser(DEPTH, VALUES, process)
    asked = [
        asyncio.create_task(parser.parse(name[0], CreateInstanceRequest, large_request(name)))
        for name in ("a1", "a2", "a3", "a4", "b1", "b2")
    ]
    for _ in asked:
        await settle()
        process.let.release()
    assert [each.task_id for each in await asyncio.gather(*asked)] == ["a1", "a2", "a3", "a4", "b1", "b2"]
    assert process.begun == ["a1", "a2", "b1", "a3", "b2", "a4"]


async def test_a_large_request_that_waits_too_long_may_come_again_and_a_large_answer_may_not():
    process = HeldProcess()
    parser = BodyParser(DEPTH, VALUES, process, request_wait_s=0.01, answer_wait_s=0.01)
    first = asyncio.create_task(parser.parse("a", CreateInstanceRequest, large_request("a1")))
    await settle()
    with pytest.raises(OverCapacityError) as busy:
        await parser.parse("b", CreateInstanceRequest, large_request("b1"))
    assert (busy.value.code, busy.value.retry_after_s) == (ErrorCode.QUEUE_FULL, 1.0)
    with pytest.raises(ServiceError) as late:
        await parser.apply("b", json.loads, large_request("b2"))
    assert late.value.code is ErrorCode.DEADLINE_EXCEEDED
    process.let.release()
    assert (await first).task_id == "a1"
    assert process.begun == ["a1"]
