"""The scripted customer: tells what is asked, agrees to what it wants, and leaves when all is settled."""

import pytest

from sandbox_service.environments.bike_rental.box.scripted_user import ReplyKind, ScriptedUser

SCRIPT = {
    "opening": "Hello.",
    "facts": [
        {"say": "My e-mail address is a@b.c.", "about": ["e-mail", "email"]},
        {"say": "My postcode is 12345.", "about": ["postcode"]},
    ],
    "wishes": [
        {
            "say": "Cancel my booking.",
            "values": ["B-2001"],
            "facts": [{"say": "It is B-2001.", "about": ["booking"]}],
        },
        {"say": "Then make me a silver member.", "values": ["silver"], "facts": []},
    ],
}


@pytest.mark.parametrize(
    ("said", "kind", "answer"),
    [
        ("What is your e-mail address?", "facts", "My e-mail address is a@b.c."),
        ("Please give me EMAIL and postcode", "facts", "My e-mail address is a@b.c. My postcode is 12345."),
        ("Which booking is it?", "facts", "It is B-2001."),
        ("I cancel B-2001. Shall I go ahead?", "consent", "Yes, please go ahead."),
        ("Do you confirm b-2001?", "consent", "Yes, please go ahead."),
        ("Shall I go ahead with B-20011?", "vague", "name the bookings"),
        ("Shall I go ahead?", "vague", "name the bookings"),
        ("Shall I go ahead with this booking?", "facts", "It is B-2001."),
        ("It is done.", "wish", "Then make me a silver member."),
        ("I am sorry, that is not possible.", "wish", "Then make me a silver member."),
        ("Anything else?", "wish", "Then make me a silver member."),
        ("One moment.", "wish", "I am not sure what you mean. Cancel my booking."),
        ("", "wish", "I am not sure what you mean."),
        ("x" * 100_000, "wish", "I am not sure what you mean."),
    ],
)
def test_answers(said: str, kind: str, answer: str) -> None:
    user = ScriptedUser(SCRIPT)
    reply = user.reply(said)
    assert reply.kind is ReplyKind(kind)
    assert answer in reply.text


def test_the_customer_begins_with_the_first_request_and_leaves_after_the_last() -> None:
    user = ScriptedUser(SCRIPT)
    assert user.open() == "Hello. Cancel my booking."
    assert user.reply("It is cancelled. Anything else?").kind is ReplyKind.WISH
    assert user.reply("Shall I go ahead with silver?").kind is ReplyKind.CONSENT
    assert user.reply("You are a silver member. Anything else?").kind is ReplyKind.END


def test_the_same_messages_get_the_same_answers() -> None:
    said = ["Hello?", "Which booking?", "Shall I go ahead with B-2001?", "Done."]
    first, second = (ScriptedUser(SCRIPT) for _ in range(2))
    assert [first.reply(each) for each in said] == [second.reply(each) for each in said]
