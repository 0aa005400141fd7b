from tests.harness.model_calls import assistant, call, calling, result, user
from trainer.model_gateway.call_ids import CallIds


def ids(message):
    return [each.id for each in message.tool_calls]


def test_tool_calls_are_numbered_on_within_a_session_and_shown_with_its_name():
    session = CallIds("0a1b")
    first, second = session.number(calling("look", "look")), session.number(calling("look"))
    assert ids(first) + ids(second) == ["000000000", "000000001", "000000002"]
    assert ids(session.outer(second)) == ["0a1b000000002"]
    assert session.of_answer(3) == "0a1b000003"


def test_a_repeated_conversation_has_the_numbers_again():
    session = CallIds("0a1b")
    sampled = session.number(calling("look"))
    shown = session.outer(sampled)
    sent = call(user("Hello"), shown, result(shown.tool_calls[0]))
    repeated = session.inner(sent)
    assert repeated.messages[1] == sampled
    assert repeated.messages[2].tool_call_id == "000000000"


def test_ids_of_others_stay_as_they_are():
    made = calling("look").tool_calls[0].model_copy(update={"id": "call_7"})
    answered = result(made).model_copy(update={"name": "look"})
    sent = call(assistant("").model_copy(update={"tool_calls": (made,)}), answered, calling("look"))
    assert CallIds("0a1b").inner(sent) == sent


def test_an_answer_has_the_name_of_the_tool_that_was_called():
    session = CallIds("0a1b")
    shown = session.outer(session.number(calling("look")))
    foreign = calling("seek").tool_calls[0].model_copy(update={"id": "call_7"})
    theirs = assistant("").model_copy(update={"tool_calls": (foreign,)})
    repeated = session.inner(call(result(shown.tool_calls[0]), theirs, result(foreign)))
    assert [repeated.messages[place].name for place in (0, 2)] == ["look", "seek"]


def test_a_text_has_no_ids():
    session, message = CallIds("0a1b"), assistant("5")
    assert session.outer(session.number(message)) is message
    sent = call(message)
    assert session.inner(sent) is sent
