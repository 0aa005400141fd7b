"""Pictures of environments: what is taken for one, and how a model server is shown it."""

from __future__ import annotations

from base64 import b64encode

import pytest
from pydantic import ValidationError

from sandbox_contract.episodes import StepRequest
from sandbox_contract.images import MOST_IMAGE_BYTES, MOST_IMAGES, chat_messages, image_urls
from sandbox_contract.messages import Message
from tests.fakes.pictures import PNG

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def url_of(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{b64encode(data).decode()}"


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize(
    "url",
    [
        PNG,
        url_of(b"\xff\xd8\xff\xe0", "image/jpeg"),
        url_of(b"RIFF\0\0\0\0WEBP", "image/webp"),
        url_of(SIGNATURE.ljust(MOST_IMAGE_BYTES)),
    ],
    ids=["png", "jpeg", "webp", "largest"],
)
def test_an_environments_message_shows_pictures_beside_its_text(role: str, url: str) -> None:
    message = Message.model_validate({"role": role, "content": "a room", "images": [url]})
    assert (message.content, message.images) == ("a room", (url,))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://example.org/room.png", "nothing is fetched from 'https://example.org/room.png'"),
        ("file:///etc/passwd", "nothing is fetched"),
        (url_of(b"GIF89a", "image/gif"), "image/png, image/jpeg, image/webp"),
        ("data:image/svg+xml;base64,AAAA", "nothing is fetched"),
        ("data:image/png,AAAA", "nothing is fetched"),
        (PNG.replace("data:", " data:"), "nothing is fetched"),
        ("data:image/png;base64,AA*A", "base64 cannot be read"),
        (f"{PNG}\n", "base64 cannot be read"),
        (f"{PNG}é", "base64 cannot be read"),
        (url_of(b""), "no file of the type image/png"),
        (url_of(b"\xff\xd8\xff\xe0"), "no file of the type image/png"),
        (url_of(b"RIFF\0\0\0\0WAVE", "image/webp"), "no file of the type image/webp"),
        (url_of(SIGNATURE.ljust(MOST_IMAGE_BYTES + 1)), f"at most {MOST_IMAGE_BYTES} bytes"),
        ("data:image/png;base64," + "A" * 2 * MOST_IMAGE_BYTES, f"at most {MOST_IMAGE_BYTES} bytes"),
    ],
    ids=range(14),
)
def test_anything_else_is_refused_with_what_a_picture_is(url: str, problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Message.model_validate({"role": "user", "content": "x", "images": [url]})
    assert problem in str(refused.value)
    assert image_urls([url, PNG]) == (PNG,)


def test_a_message_has_a_bounded_number_of_pictures() -> None:
    with pytest.raises(ValidationError, match="at most 16"):
        Message.model_validate({"role": "user", "images": [PNG] * (MOST_IMAGES + 1)})


def test_an_agent_sends_no_pictures() -> None:
    message = {"role": "assistant", "content": "x", "images": [PNG]}
    with pytest.raises(ValidationError, match="no environment reads images; a message of the assistant"):
        StepRequest.model_validate({"instance_id": "i", "message": message})


@pytest.mark.parametrize("given", [None, []])
def test_no_pictures_leave_a_message_as_it_is(given: object) -> None:
    message = Message.model_validate({"role": "assistant", "content": "x", "images": given})
    assert message == Message(role="assistant", content="x")


def test_a_model_server_gets_pictures_as_parts_after_the_text() -> None:
    shown = chat_messages(
        [
            Message(role="system", content="play"),
            Message(role="user", content="a room", images=(PNG,)),
            Message(role="user", images=(PNG,)),
        ]
    )
    picture = {"type": "image_url", "image_url": {"url": PNG}}
    assert shown == [
        {"role": "system", "content": "play"},
        {"role": "user", "content": [{"type": "text", "text": "a room"}, picture]},
        {"role": "user", "content": [picture]},
    ]


def test_pictures_of_tools_follow_the_last_of_their_messages() -> None:
    tools = [
        Message(role="tool", tool_call_id=call_id, content=call_id, images=(PNG,)) for call_id in ("a", "b")
    ]
    shown = chat_messages([*tools, Message(role="assistant", content="x"), *tools[:1]])
    assert [(each["role"], isinstance(each["content"], str)) for each in shown] == [
        ("tool", True),
        ("tool", True),
        ("user", False),
        ("assistant", True),
        ("tool", True),
        ("user", False),
    ]
    assert [len(shown[place]["content"]) for place in (2, 5)] == [2, 1]


@pytest.mark.parametrize("recorded", [None, "x", {}, [None, 5, {"url": PNG}]])
def test_records_without_pictures_show_none(recorded: object) -> None:
    assert image_urls(recorded) == ()
