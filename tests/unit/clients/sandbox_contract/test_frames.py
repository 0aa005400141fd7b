from sandbox_contract.frames import ConversationFrame, frame_after, opening_frame
from sandbox_contract.messages import FunctionSchema, Tool

OLD, NEW = (Tool(function=FunctionSchema(name=name)) for name in ("old", "new"))
BEGUN = opening_frame((OLD,))


def test_a_session_begins_with_its_first_message_and_keeps_the_tools() -> None:
    assert frame_after(BEGUN, {"new_session": True}, 4) == ConversationFrame(message=4, first=4, tools=(OLD,))


def test_other_tools_leave_the_session_as_it_is() -> None:
    session = ConversationFrame(message=4, first=4, tools=(OLD,))
    assert frame_after(session, {"tools": [NEW.model_dump()]}, 7) == ConversationFrame(
        message=7, first=4, tools=(NEW,)
    )


def test_a_session_may_bring_its_own_tools() -> None:
    found = frame_after(BEGUN, {"tools": [NEW.model_dump()], "new_session": True}, 2)
    assert found == ConversationFrame(message=2, first=2, tools=(NEW,))


def test_an_info_that_changes_nothing_opens_no_frame() -> None:
    for info in ({}, {"new_session": False}, {"tools": [OLD.model_dump()]}, {"tools": "hammer"}):
        assert frame_after(BEGUN, info, 2) is None
