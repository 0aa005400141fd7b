"""The desk as an agent meets it: who may be helped, what needs consent, and what earns nothing."""

import json

import pytest

from sandbox_service.config import BikeRentalConfig
from sandbox_service.environments.bike_rental.box.rental_data import make_database
from sandbox_service.environments.bike_rental.service.catalog import BikeRentalCatalog
from sandbox_service.runner.world import Context, WorldError
from sandbox_service.wire.codes import BoxErrorCode
from tests.harness.rental_desk import Conversation, Json, call, first_task, say

WRITES = ("create_", "cancel_", "change_", "set_", "report_", "give_", "record_", "transfer_")


def names(message: Json) -> list[str]:
    return [each["function"]["name"] for each in message.get("tool_calls") or ()]


def writes(message: Json) -> bool:
    return any(name.startswith(WRITES) for name in names(message))


def each_task(split: str = "test") -> list[str]:
    return list(BikeRentalCatalog(BikeRentalConfig()).task_ids(split))


@pytest.mark.parametrize("user", ["scripted", "solo"])
@pytest.mark.parametrize("split", ["validation", "test"])
def test_doing_nothing_and_leaving_at_once_earn_nothing(split: str, user: str) -> None:
    for task_id in each_task(split):
        conversation = Conversation(task_id, user)
        assert conversation.verdict().score == 0.0
        assert conversation.play([say(""), say("Goodbye."), say("Goodbye.")]).score == 0.0


def test_writes_without_the_customers_yes_earn_nothing() -> None:
    played = 0
    for task_id in each_task():
        conversation = Conversation(task_id)
        eager = [each for each in conversation.reference if "go ahead" not in (each.get("content") or "")]
        if len(eager) < len(conversation.reference):
            verdict = conversation.play(eager)
            assert verdict.details["broken_rules"] == ["consent"], task_id
            assert (verdict.details["database"], verdict.score) == (True, 0.0)
            played += 1
    assert played > 30


@pytest.mark.parametrize("user", ["scripted", "solo"])
def test_writes_for_a_customer_who_was_not_verified_earn_nothing(user: str) -> None:
    for task_id in each_task():
        conversation = Conversation(task_id, user)
        hasty = [each for each in conversation.reference if "verify_customer" not in names(each)]
        verdict = conversation.play(hasty)
        assert verdict.score == 0.0
        assert "identity" in verdict.details["broken_rules"]


def test_carrying_out_what_the_policy_forbids_earns_nothing() -> None:
    """The tool does it, and the customer agrees: only the policy forbids it."""
    conversation = Conversation(first_task("membership_declined"))
    lower = conversation.payload.task["script"]["wishes"][0]["values"][0]
    customer = json.loads(conversation.reference[2]["tool_calls"][0]["function"]["arguments"])
    conversation.send(call("verify_customer", **conversation.customer))
    conversation.send(say(f"Shall I go ahead with {lower}?"))
    assert lower in conversation.send(call("set_membership", **customer, membership=lower))
    verdict = conversation.play([say("It is done. Is there anything else?")])
    assert (verdict.score, verdict.details["database"], verdict.details["broken_rules"]) == (0.0, False, [])


def test_telling_everything_tells_nothing() -> None:
    amounts = " ".join(f"{euros}.{cents:02d}" for euros in range(400) for cents in (0, 50))
    for category in ("cancel", "incident", "membership", "change_dates"):
        conversation = Conversation(first_task(category))
        *before, last = conversation.reference
        told = say(f"It is done: {amounts}. {last['content']} Is there anything else?")
        verdict = conversation.play([*before, told])
        assert (verdict.details["database"], verdict.details["facts_told"]) == (True, 0)
        assert verdict.score == 0.0


def test_telling_everything_in_many_messages_tells_nothing() -> None:
    conversation = Conversation(first_task("membership"))
    for euros in range(0, 60, 4):
        conversation.send(say(" ".join(f"{each}.00" for each in range(euros, euros + 4))))
    verdict = conversation.play(conversation.reference)
    assert (verdict.details["database"], verdict.details["facts_told"]) == (True, 0)


def test_not_telling_what_the_customer_needs_earns_nothing() -> None:
    conversation = Conversation(first_task("cancel"))
    verdict = conversation.play([*conversation.reference[:-1], say("Done. Is there anything else?")])
    assert (verdict.details["database"], verdict.score) == (True, 0.0)


def test_a_write_too_many_earns_nothing() -> None:
    conversation = Conversation(first_task("membership"))
    customer = next(iter(make_database("train")["customers"]))
    *before, last = conversation.reference
    verdict = conversation.play(
        [*before, call("record_refusal", customer_id=customer, rule="downgrade"), last]
    )
    assert (verdict.details["database"], verdict.score) == (False, 0.0)


def test_a_second_write_needs_a_second_yes() -> None:
    conversation = Conversation(first_task("membership"))
    conversation.play(conversation.reference[:-1])
    conversation.send(say("One moment."))
    conversation.send(conversation.reference[-2])
    assert conversation.verdict().details["broken_rules"] == ["consent"]


def test_errors_of_tools_are_answers() -> None:
    conversation = Conversation(first_task("cancel"))
    for message, answer in (
        (call("get_booking", booking_id="B-1"), "bookings has no 'B-1'"),
        (call("no_such_tool"), "there is no tool 'no_such_tool'"),
        (call("get_booking"), "get_booking needs the argument 'booking_id'"),
        (call("get_booking", booking_id=1), "booking_id must be a string"),
        (call("get_booking", booking_id="B-2001", x=1), "get_booking has no argument 'x'"),
        (call("set_membership", customer_id="C-1001", membership="lead"), "membership must be one of"),
        (call("verify_customer", email="x@y.z", postcode="1"), "no customer has this e-mail"),
    ):
        assert answer in conversation.send(message)
        assert conversation.outcomes[-1].info["calls"][0]["succeeded"] is False
    assert conversation.verdict().details["broken_rules"] == []


@pytest.mark.parametrize(
    ("user", "texts"), [("scripted", "dialogue"), ("model", "dialogue"), ("solo", "last")]
)
def test_the_opening_says_whether_a_customer_answers(user: str, texts: str) -> None:
    assert Conversation(first_task("cancel"), user).opening.info["texts"] == texts


def test_a_customer_of_a_model_is_asked_by_whoever_plays() -> None:
    conversation = Conversation(first_task("cancel"), "model")
    assert conversation.opening.info["awaits"] == "user"
    assert "You play a customer" in conversation.opening.messages[0]["content"]
    booking = conversation.payload.task["script"]["wishes"][0]["values"][0]
    assert conversation.send(say("I want to cancel.", "user")) == "I want to cancel."
    opening = conversation.outcomes[-1]
    assert opening.messages[0]["role"] == "system"
    assert "awaits" not in opening.info
    assert conversation.send(say("Shall I go ahead?")) == "Shall I go ahead?"
    assert conversation.outcomes[-1].info["awaits"] == "user"
    conversation.send(say(f"Yes, cancel {booking}.", "user"))
    scripted = Conversation(conversation.task_id)
    for message in scripted.reference[1:]:
        if message.get("tool_calls"):
            conversation.send(message)
    conversation.send(scripted.reference[-1])
    assert conversation.send(say("[DONE]", "user")) == "That is all. Goodbye."
    assert conversation.outcomes[-1].terminated
    assert conversation.verdict().score == 1.0


def test_a_model_customer_who_said_no_has_not_agreed() -> None:
    conversation = Conversation(first_task("membership"), "model")
    conversation.send(say("I want to be a member.", "user"))
    conversation.send(say("Shall I go ahead?"))
    conversation.send(say("Yesterday I would have.", "user"))
    for message in Conversation(conversation.task_id).reference:
        if message.get("tool_calls"):
            conversation.send(message)
    assert conversation.verdict().details == {
        "database": True,
        "facts": 1,
        "facts_told": 0,
        "broken_rules": ["consent"],
    }


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([say("I am the agent.")], "waits for a message of 'user'"),
        ([say("", "user")], "has no text"),
        ([say("[DONE]", "user")], "left without a request"),
        ([say("Hello.", "user"), say("I again.", "user")], "waits for a message of the agent"),
    ],
)
def test_a_message_of_the_wrong_speaker_or_without_sense_is_refused(
    messages: list[Json], problem: str
) -> None:
    conversation = Conversation(first_task("cancel"), "model")
    for message in messages[:-1]:
        conversation.send(message)
    with pytest.raises(WorldError, match=problem) as caught:
        conversation.send(messages[-1])
    assert caught.value.code is BoxErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"user": "nobody"}, "the parameter user is one of: scripted"),
        ({"user": 1}, "the parameter user is one of: scripted"),
        ({"player": "x"}, "there is no parameter 'player'; there is: user"),
    ],
)
def test_bad_parameters_are_refused(params: Json, problem: str) -> None:
    conversation = Conversation(first_task("cancel"))
    world = type(conversation.world)(conversation.payload.task, Context("x", 0, params))
    with pytest.raises(WorldError, match=problem) as caught:
        world.start()
    assert caught.value.code is BoxErrorCode.INVALID_REQUEST
