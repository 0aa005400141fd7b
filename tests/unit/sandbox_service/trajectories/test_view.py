"""Trajectories, conversations and outcomes out of recorded events."""

from sandbox_contract.inspection import InstanceTrajectory
from sandbox_service.trajectories.pages import EventPage
from sandbox_service.trajectories.records import EventKind
from sandbox_service.trajectories.view import (
    agent_turns,
    conversation_of,
    frames_of,
    outcome_of,
    tools_of,
    trajectory_of,
    trajectory_page,
)
from tests.harness.episodes import create, evaluation, event, failure, instance, step, with_customer


def test_a_conversation_is_the_opening_and_each_action_with_its_answer():
    messages = conversation_of([create(), step(sequence=1, index=0), step(sequence=2, index=1)])
    assert [(one["role"], one["content"]) for one in messages] == [
        ("user", "Say something."),
        ("assistant", "step 0"),
        ("tool", "word 0"),
        ("assistant", "step 1"),
        ("tool", "word 1"),
    ]


def test_a_conversation_keeps_fields_that_the_contract_does_not_know():
    assert conversation_of([step()])[0]["extra"] == 1


def test_a_failed_step_is_no_part_of_the_conversation():
    assert len(conversation_of([create(), failure(), step(sequence=2)])) == 3


def test_a_conversation_is_the_agents_without_the_counterparts():
    messages = [(one["role"], one["content"]) for one in conversation_of(with_customer())]
    assert messages == [
        ("user", "You are a clerk. Hello."),
        ("assistant", "Good day."),
        ("user", "A bike."),
        ("assistant", "Here it is."),
        ("user", "Thanks."),
    ]


def test_what_a_counterparts_step_earns_belongs_to_the_agents_step_before():
    assert [turn.reward for turn in agent_turns(with_customer())] == [0.25, 0.25, 0.0]


def test_a_session_and_tools_that_a_counterparts_step_brings_begin_with_its_answer():
    tool = {"type": "function", "function": {"name": "rent"}}
    opening, session = frames_of(with_customer(new_session=True, tools=[tool]))
    assert (opening.message, opening.tools) == (0, ())
    assert (session.message, session.first, session.tools[0].function.name) == (2, 2, "rent")
    assert conversation_of(with_customer())[2]["content"] == "A bike."


def test_what_is_said_to_a_counterpart_begins_no_session():
    episode = [create(), step(info={"awaits": "user", "new_session": True})]
    assert len(frames_of(episode)) == 1


def test_the_outcome_counts_rewards_and_tells_the_end():
    outcome = outcome_of([create(), step(reward=0.25), step(reward=0.5, truncated=True), failure()])
    assert outcome.step_rewards == (0.25, 0.5)
    assert (outcome.terminated, outcome.truncated, outcome.success, outcome.score) == (
        False,
        True,
        None,
        None,
    )
    assert outcome.reward == 0.75


def test_the_last_evaluation_counts_and_replaces_the_sum_of_rewards():
    outcome = outcome_of([step(reward=0.25), evaluation(score=0.5), evaluation(score=1.0)])
    assert (outcome.score, outcome.success, outcome.reward) == (1.0, True, 1.0)


def test_tools_come_from_the_opening():
    assert tools_of([create(), step()])[0]["function"]["name"] == "say"
    assert tools_of([step()]) == []


def test_a_trajectory_shows_requests_results_and_problems():
    shown = trajectory_of(
        instance(), [create(), failure(), event(sequence=2, kind=EventKind.RELEASE, timing_ms={"run": 2.0})]
    )
    assert [one.operation for one in shown.events] == ["create", "step", "release"]
    assert shown.events[0].request == {"environment": "echo", "task_id": "echo-1"}
    assert shown.events[1].result["code"] == "step_timeout"
    assert shown.events[2].request is None
    assert shown.events[2].timing == {"run": 2.0}


def test_half_a_surrogate_pair_in_a_result_can_be_shown():
    shown = trajectory_of(instance(), [event(response=b'{"text": "broken \\ud800, whole \\ud83d\\ude00"}')])
    assert shown.events[0].result == {"text": "broken ?, whole \U0001f600"}
    assert shown.model_dump_json()


def test_a_body_that_is_no_json_is_left_out():
    assert trajectory_of(instance(), [event(response=b"\xff\x00")]).events[0].result is None


def test_a_page_is_the_trajectory_of_its_events_with_a_cursor():
    events = (
        create(),
        step(),
        failure(sequence=2),
        event(sequence=3, request=b"not json", response=b'{"content": "half a \\ud800 pair"}'),
        event(sequence=4, request=b"[1]", response='{"text": "\u00e9 \\"events\\":[]"}'.encode(), reward=0.5),
        event(sequence=9, kind=EventKind.RELEASE, timing_ms={"run": 2.0}),
    )
    record = instance(tenant='"events":[]')
    page = InstanceTrajectory.model_validate_json(trajectory_page(record, EventPage(events, more=True)))
    assert page == trajectory_of(record, events).model_copy(update={"next_cursor": "9"})
    last = InstanceTrajectory.model_validate_json(trajectory_page(record, EventPage((), more=False)))
    assert (last.events, last.next_cursor) == ((), None)
