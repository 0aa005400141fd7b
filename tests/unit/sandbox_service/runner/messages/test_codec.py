"""Messages between the processes of a box."""

import dataclasses
import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from sandbox_service.runner.messages import control, files, launcher, session, zygote
from sandbox_service.runner.messages.codec import Codec, MessageError, RunnerMessage, encode

CODECS = {
    "control requests": control.REQUESTS,
    "control answers": control.ANSWERS,
    "file requests": files.REQUESTS,
    "file answers": files.ANSWERS,
    "launcher requests": launcher.REQUESTS,
    "launcher replies": launcher.REPLIES,
    "session requests": session.REQUESTS,
    "session reports": session.REPORTS,
    "zygote requests": zygote.REQUESTS,
    "zygote reports": zygote.REPORTS,
}


@pytest.mark.parametrize(
    "message",
    [
        zygote.ForkWorker(3),
        launcher.OpenInstance(serial=4, copy_of=None),
        launcher.OpenInstance(serial=4, copy_of=2),
        launcher.Cleaned(7, ["a path"]),
        session.RunCell(number=1, serves=True),
        session.Question(1, 2, {"a": [1, None]}),
        files.WriteFiles([["a/b", 12]]),
    ],
    ids=repr,
)
def test_a_message_survives_its_way_over_a_socket(message: RunnerMessage) -> None:
    value = json.loads(json.dumps(encode(message)))
    [codec] = [each for each in CODECS.values() if type(message).kind in each.kinds]
    assert codec.decode(value) == message


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("kind", ["reboot", "", None, 1, ["fork_worker"], {"kind": "done"}])
def test_an_unknown_kind_is_refused(codec: Codec[RunnerMessage], kind: object) -> None:
    with pytest.raises(MessageError, match="kind"):
        codec.decode({"kind": kind})


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"kind": "started", "pid": 1},
        {"kind": "started", "pid": 1, "uid": None, "more": 1},
        {"kind": "started", "pid": "1", "uid": None},
        {"kind": "started", "pid": True, "uid": None},
        {"kind": "started", "pid": 1.0, "uid": None},
        {"kind": "started", "pid": None, "uid": None},
    ],
    ids=str,
)
def test_fields_that_are_not_those_of_the_kind_are_refused(value: dict[str, object]) -> None:
    with pytest.raises(MessageError):
        control.ANSWERS.decode(value)


def test_a_request_of_another_connection_is_refused() -> None:
    with pytest.raises(MessageError):
        control.REQUESTS.decode(encode(launcher.ResetBox(1)))


def test_two_messages_of_one_connection_have_two_kinds() -> None:
    @dataclass(frozen=True, slots=True)
    class Again(RunnerMessage):
        kind: ClassVar[str] = zygote.WorldReady.kind

    with pytest.raises(ValueError, match="same kind"):
        Codec[RunnerMessage](zygote.WorldReady, Again)


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        zygote.ForkWorker(1).worker = 2  # type: ignore[misc]
