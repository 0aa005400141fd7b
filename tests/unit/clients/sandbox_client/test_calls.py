import json

import pytest
from pydantic import BaseModel

from sandbox_client import RequestError, _calls
from sandbox_client._calls import Lane
from sandbox_contract.batches import BatchRequest, StepOperation
from sandbox_contract.episodes import CreateInstanceRequest, StepRequest
from sandbox_contract.messages import Message


def create(**fields: object) -> dict[str, object]:
    arguments: dict[str, object] = {
        "environment": "echo",
        "task_id": "echo-1",
        "instance_id": None,
        "seed": None,
        "params": None,
        "fresh": False,
        "idempotency_key": None,
    }
    return json.loads(_calls.create_instance(**(arguments | fields)).body)  # type: ignore[arg-type]


def test_a_create_sends_what_was_given_and_a_key() -> None:
    body = create(seed=3)
    key = body.pop("idempotency_key")
    assert body == {"environment": "echo", "task_id": "echo-1", "seed": 3}
    assert len(str(key)) == 32


def test_two_calls_have_two_keys() -> None:
    assert create()["idempotency_key"] != create()["idempotency_key"]


def test_the_callers_own_key_is_kept() -> None:
    assert create(idempotency_key="mine")["idempotency_key"] == "mine"


def test_parameters_with_null_reach_the_environment_as_they_are() -> None:
    assert create(params={"a": None})["params"] == {"a": None}


@pytest.mark.parametrize(
    "call",
    [
        lambda: _calls.evaluate("i", None, None, None),
        lambda: _calls.release_instance("i", None),
        lambda: _calls.fork_instance("i", 2, None),
        lambda: _calls.step(_calls.step_request("i", "x", 0, None, None)),
        lambda: _calls.run_agent("i", ["true"], *[None] * 6),
    ],
    ids=["evaluate", "release", "fork", "step", "agent"],
)
def test_every_changing_verb_carries_a_key(call) -> None:
    assert json.loads(call().body)["idempotency_key"]


def test_a_step_index_of_zero_is_sent() -> None:
    assert json.loads(_calls.step(_calls.step_request("i", "x", 0, None, None)).body)["step_index"] == 0


@pytest.mark.parametrize(
    "action",
    ["hello", {"role": "assistant", "content": "hello"}, Message(role="assistant", content="hello")],
    ids=["text", "dictionary", "model"],
)
def test_an_action_is_a_text_a_dictionary_or_a_message(action) -> None:
    body = json.loads(_calls.step(_calls.step_request("i", action, None, None, "k")).body)
    assert body["message"] == {"role": "assistant", "content": "hello"}


class Answer(BaseModel):
    """As ``chat.completions.create`` returns it."""

    id: str = "chatcmpl-1"
    choices: tuple[Message, ...] = (Message(role="assistant", content="hello"),)


class Item(BaseModel):
    """A function call of a Response, beside its other output."""

    type: str = "function_call"
    name: str = "look"
    arguments: str = "{}"


@pytest.mark.parametrize("whole", [Answer(), Item()], ids=["answer", "item"])
def test_an_object_that_is_no_message_never_leaves_the_client(whole: BaseModel) -> None:
    with pytest.raises(TypeError, match=r"send choices\[0\]\.message"):
        _calls.step_request("i", whole, None, None, None)


def test_an_object_of_an_sdk_is_sent_without_what_is_no_part_of_a_message() -> None:
    class FromAnSdk(BaseModel):
        content: str = "hello"
        annotations: tuple[str, ...] = ()

    body = json.loads(_calls.step(_calls.step_request("i", FromAnSdk(), None, None, "k")).body)
    assert body["message"] == {"role": "assistant", "content": "hello"}


def test_a_bad_instance_id_never_leaves_the_client() -> None:
    with pytest.raises(RequestError, match="instance_id"):
        _calls.step_request("not an id", "x", 0, None, None)


def test_creates_and_forks_have_slots_of_their_own() -> None:
    assert _calls.fork_instance("i", 1, None).lane is Lane.ADMISSION
    assert _calls.evaluate("i", None, None, None).lane is Lane.WORK


def test_agents_have_slots_of_their_own_and_are_waited_for_as_long_as_they_may_run() -> None:
    call = _calls.run_agent("i", ["true"], {"A": "b"}, "p", "h:80", 700.0, 10, "k")
    assert (call.lane, call.timeout_s) == (Lane.AGENT, 700.0)
    assert json.loads(call.body) == {
        "instance_id": "i",
        "command": ["true"],
        "environment": {"A": "b"},
        "package": "p",
        "model_endpoint": "h:80",
        "timeout_s": 700.0,
        "output_bytes": 10,
        "idempotency_key": "k",
    }


def test_a_grading_that_asks_for_time_keeps_no_others_from_stepping() -> None:
    call = _calls.evaluate("i", None, 900.0, None)
    assert (call.lane, call.timeout_s) == (Lane.AGENT, 900.0)


def test_each_operation_of_a_batch_has_a_key_and_the_longest_deadline_counts() -> None:
    steps = [
        StepOperation(
            operation="step",
            request=StepRequest(
                instance_id=f"i{index}", message=Message(role="assistant", content="x"), timeout_s=index + 1.0
            ),
        )
        for index in range(3)
    ]
    call = _calls.batch(steps, None)
    sent = BatchRequest.model_validate_json(call.body)
    assert len({operation.request.idempotency_key for operation in sent.operations}) == 3
    assert (call.lane, call.timeout_s) == (Lane.WORK, 3.0)


def test_a_batch_with_a_create_waits_with_the_creates() -> None:
    operation = {"operation": "create_instance", "request": {"environment": "echo", "task_id": "echo-1"}}
    batch = BatchRequest.model_validate({"operations": [operation]})
    assert isinstance(batch.operations[0].request, CreateInstanceRequest)
    assert _calls.batch(batch.operations, None).lane is Lane.ADMISSION


def test_a_batch_with_a_long_grading_is_waited_for_and_keeps_no_others_from_stepping() -> None:
    batch = BatchRequest.model_validate(
        {"operations": [{"operation": "evaluate", "request": {"instance_id": "i"}}]}
    )
    call = _calls.batch(batch.operations, 900.0)
    assert (call.lane, call.timeout_s) == (Lane.AGENT, 900.0)


@pytest.mark.parametrize("path", ["../secret", "a/../b", "/etc/passwd", "a//b", "", "./a"])
def test_a_path_that_a_url_would_resolve_never_leaves_the_client(path: str) -> None:
    with pytest.raises(RequestError) as caught:
        _calls.read_file("i", path)
    assert caught.value.code == "invalid_path"


def test_a_path_with_strange_characters_is_quoted() -> None:
    call = _calls.write_file("s1.abc", "data/ä b?#.txt", b"x", None)
    assert call.path == "/v1/instances/s1.abc/files/data/%C3%A4%20b%3F%23.txt"
    assert call.idempotency_key


@pytest.mark.parametrize(
    "call",
    [
        lambda: _calls.step(_calls.step_request("i", "\ud83d", 0, None, None)),
        lambda: _calls.create_instance("echo", "\ud83d", None, None, None, False, None),
        lambda: _calls.evaluate("i", {"a": ["\ud83d"]}, None, None),
        lambda: _calls.read_file("i", "\ud83d"),
        lambda: _calls.list_files("i", "\ud83d"),
        lambda: _calls.instance("\ud83d"),
    ],
    ids=["step", "create", "evaluate", "read", "list", "instance"],
)
def test_half_a_character_is_an_invalid_request_and_never_leaves_the_client(call) -> None:
    with pytest.raises(RequestError) as caught:
        call()
    assert caught.value.code == "invalid_request"


@pytest.mark.parametrize("key", ["a\nb", "ä", "a b", "x" * 129])
def test_a_key_that_no_header_carries_never_leaves_the_client(key: str) -> None:
    with pytest.raises(RequestError, match="idempotency_key"):
        _calls.write_file("i", "a.txt", b"x", key)


def sent(action: object) -> dict[str, object]:
    """The message of a step, as it is sent."""
    request = _calls.step_request("i", action, None, None, "k")  # type: ignore[arg-type]
    return json.loads(_calls.step(request).body)["message"]


def test_a_message_of_openais_sdk_is_sent_as_it_is() -> None:
    chat = pytest.importorskip("openai.types.chat")
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}
    message = chat.ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": "I look.", "refusal": None, "tool_calls": [call]}
    )
    assert sent(message) == {"role": "assistant", "content": "I look.", "tool_calls": [call]}


def test_a_message_item_of_openais_responses_is_sent_as_its_text() -> None:
    responses = pytest.importorskip("openai.types.responses")
    text = {"type": "output_text", "text": "I look.", "annotations": []}
    item = responses.ResponseOutputMessage.model_validate(
        {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    )
    assert sent(item) == {"role": "assistant", "content": "I look."}


def test_a_message_of_anthropics_sdk_is_sent_with_its_calls_and_thoughts() -> None:
    types = pytest.importorskip("anthropic.types")
    message = types.Message.model_validate(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "it"}},
            ],
        }
    )
    function = {"name": "look", "arguments": {"at": "it"}}
    assert sent(message) == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "t1", "type": "function", "function": function}],
    }


def test_a_part_that_is_no_text_never_leaves_the_client() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(RequestError, match="part 0 of the content has the type 'image_url'"):
        sent({"role": "assistant", "content": [image]})
