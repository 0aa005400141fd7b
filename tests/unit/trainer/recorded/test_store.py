import re

import httpx
import pytest

from sandbox_client import RetryPolicy, SandboxClient
from sandbox_contract.base import JsonObject
from sandbox_contract.inspection import Event, InstanceTrajectory
from tests.fakes.recorded import message
from trainer.errors import DataError, ServiceUnavailable
from trainer.recorded.bad_rows import RowError, UnplayedError
from trainer.recorded.store import recorded_instance, stored_trajectories
from trainer.recorded.types import RowOrigin

ASKED = {"observation": {"messages": [{"role": "user", "content": "?"}]}}
TOOL = {"type": "function", "function": {"name": "go"}}
EVENTS = (
    Event(
        sequence=0,
        operation="create",
        at=0,
        request={"params": {"opponent": "mcts"}},
        result={**ASKED, "tools": [TOOL]},
    ),
    Event(
        sequence=1,
        operation="step",
        at=1,
        request={"message": {"role": "assistant", "content": "a"}},
        result={**ASKED, "truncated": True},
        reward=0.25,
    ),
    Event(
        sequence=2,
        operation="step",
        at=2,
        request={"message": {"role": "assistant", "content": "lost"}},
        result={"code": "step_timeout", "message": "too slow"},
    ),
    Event(sequence=3, operation="evaluate", at=3, result={"score": 0.5, "success": False}, reward=0.5),
)
ORIGIN = RowOrigin("http://service", "i-1")


def trajectory(*events: Event, name: str = "i-1") -> InstanceTrajectory:
    return InstanceTrajectory(instance_id=name, environment="echo", task_id="t/1", tenant="me", events=events)


def client(answers: dict[str, object]) -> SandboxClient:
    def answer(request: httpx.Request) -> httpx.Response:
        body = answers.get(request.url.path)
        if body is None:
            problem = {"code": "instance_not_found", "message": "no such instance", "retryable": False}
            return httpx.Response(404, json=problem)
        return httpx.Response(200, json=body)

    return SandboxClient(
        "http://service", transport=httpx.MockTransport(answer), retry=RetryPolicy(attempts=1)
    )


def spoken(sequence: int, said: str, shown: str, **fields: object) -> Event:
    return Event(
        sequence=sequence,
        operation="step",
        at=sequence,
        request={"message": {"role": "assistant", "content": said, **fields}},
        result={"observation": {"messages": [{"role": "user", "content": shown}]}},
        reward=0.25,
    )


def with_info(event: Event, info: JsonObject) -> Event:
    return event.model_copy(update={"result": {**(event.result or {}), "info": info}})


def test_an_episode_with_a_counterpart_is_the_agents_side_of_it() -> None:
    opening = Event(
        sequence=0, operation="create", at=0, result={**ASKED, "info": {"awaits": "user"}, "tools": [TOOL]}
    )
    asking = spoken(2, "Good day.", "Good day.")
    (found,) = recorded_instance(
        trajectory(
            opening,
            spoken(1, "Hello.", "You are a clerk. Hello.", name="user"),
            with_info(asking, {"awaits": "user"}),
            spoken(3, "A bike.", "A bike.", name="user"),
        ),
        ORIGIN,
    )
    assert [each.content for each in found.messages] == ["You are a clerk. Hello.", "Good day.", "A bike."]
    assert found.step_rewards == (0.5,)


def test_events_become_an_episode_without_failed_operations() -> None:
    (found,) = recorded_instance(trajectory(*EVENTS), ORIGIN)
    assert found.messages == (message("user", "?"), message("assistant", "a"), message("user", "?"))
    assert (found.score, found.success, found.step_rewards, found.truncated) == (0.5, False, (0.25,), True)
    assert [tool.function.name for tool in found.tools] == ["go"]
    assert found.params == {"opponent": "mcts"}
    assert str(found.origin) == "http://service:i-1"


def test_sessions_and_changed_tools_are_records_of_their_own() -> None:
    session, changing = spoken(1, "a", "Later."), spoken(2, "b", "With this.")
    infos = ({"new_session": True}, {"tools": [{"type": "function", "function": {"name": "stop"}}]})
    session, changing = map(with_info, (session, changing), infos)
    found = recorded_instance(trajectory(EVENTS[0], session, changing, spoken(3, "c", "Bye.")), ORIGIN)
    assert [[each.content for each in record.messages] for record in found] == [
        ["?", "a"],
        ["Later.", "b"],
        ["Later.", "b", "With this.", "c", "Bye."],
    ]
    assert [[tool.function.name for tool in record.tools] for record in found] == [["go"], ["go"], ["stop"]]


def test_a_session_that_a_counterparts_step_brings_begins_with_its_answer() -> None:
    asking = with_info(spoken(1, "a", "For the user."), {"awaits": "user"})
    answered = with_info(spoken(2, "Later.", "Later.", name="user"), {"new_session": True})
    found = recorded_instance(trajectory(EVENTS[0], asking, answered, spoken(3, "b", "Bye.")), ORIGIN)
    assert [[each.content for each in record.messages] for record in found] == [
        ["?", "a"],
        ["Later.", "b", "Bye."],
    ]


def test_an_instance_without_steps_is_unplayed() -> None:
    with pytest.raises(UnplayedError):
        recorded_instance(trajectory(EVENTS[0]), ORIGIN)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({**ASKED, "tools": [{"type": "function"}]}, "a recorded tool is invalid: function: field required"),
        (
            {"observation": {"messages": [{"role": "cook"}]}},
            "a recorded message is invalid: role: 'cook' is not one of: .*",
        ),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_row(result: JsonObject, why: str) -> None:
    opening = Event(sequence=0, operation="create", at=0, result=result)
    with pytest.raises(RowError) as caught:
        recorded_instance(trajectory(opening, EVENTS[1]), ORIGIN)
    assert re.fullmatch(why, str(caught.value))


def test_named_instances_are_read_and_an_unknown_one_is_named() -> None:
    body = trajectory(*EVENTS).model_dump(mode="json")
    with client({"/v1/instances/i-1/trajectory": body}) as service:
        found = stored_trajectories(service, "http://service", ["i-1", "gone"])
        assert next(found).instance_id == "i-1"
        with pytest.raises(DataError, match="http://service:gone: its trajectory cannot be read"):
            next(found)


def test_a_service_without_instances_says_what_to_do() -> None:
    service = client({"/v1/instances": {"instances": []}})
    with service, pytest.raises(DataError, match="no live instances; name instances, or export its store"):
        list(stored_trajectories(service, "http://service"))


def test_a_service_that_does_not_answer_is_unavailable() -> None:
    with client({}) as service, pytest.raises(ServiceUnavailable, match="http://service: its instances"):
        list(stored_trajectories(service, "http://service"))


def test_a_service_that_goes_away_is_no_error_of_the_data() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    service = SandboxClient(
        "http://service", transport=httpx.MockTransport(refuse), retry=RetryPolicy(attempts=1)
    )
    with service, pytest.raises(ServiceUnavailable, match="http://service: i-1 cannot be read"):
        list(stored_trajectories(service, "http://service", ["i-1"]))
