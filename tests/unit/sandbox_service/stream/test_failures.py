from __future__ import annotations

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import NodeFullError, OverCapacityError, ServiceError
from sandbox_service.stream.failures import error_frame, error_of, reply_or_raise
from sandbox_service.wire.frames import Frame, Op

REQUEST = Frame(Op.CREATE, 9, "i")


@pytest.mark.parametrize(
    "error",
    [ServiceError(code, "why", wait) for code in ErrorCode for wait in (None, 1.5)],
    ids=lambda error: f"{error.code.value}-{error.retry_after_s}",
)
def test_every_error_survives_the_stream(error):
    frame = error_frame(REQUEST, error)
    assert (frame.op, frame.request_id, frame.instance_id) == (Op.ERROR, 9, "i")
    again = error_of(frame)
    assert (again.code, again.detail, again.retry_after_s) == (error.code, error.detail, error.retry_after_s)


def test_a_capacity_error_keeps_its_wait():
    assert error_of(error_frame(REQUEST, OverCapacityError("full", 3.0))).retry_after_s == 3.0


def test_a_full_node_is_told_from_a_full_store():
    found = error_of(error_frame(REQUEST, NodeFullError("no space", 2.0)))
    assert isinstance(found, NodeFullError)
    assert (found.detail, found.retry_after_s) == ("no space", 2.0)
    store = error_of(error_frame(REQUEST, ServiceError(ErrorCode.STORAGE_FULL, "no space")))
    assert not isinstance(store, NodeFullError)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{}", b'{"code":"nonsense","detail":""}', b'{"code":"internal"}', b"\xff"]
)
def test_an_error_frame_that_cannot_be_parsed_is_an_internal_error(body):
    assert error_of(Frame(Op.ERROR, 1, "", {}, body)).code is ErrorCode.INTERNAL


def test_a_reply_passes_and_an_error_is_raised():
    reply = REQUEST.reply(b"x")
    assert reply_or_raise(reply) is reply
    with pytest.raises(ServiceError):
        reply_or_raise(REQUEST.error("internal", "broke"))
