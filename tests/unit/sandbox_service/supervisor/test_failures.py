import logging

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_of
from sandbox_service.supervisor.failures import error_answer
from sandbox_service.wire.frames import Frame, Op

FRAME = Frame(Op.STEP, 1, "s1.a", {"tenant": "ada", "request_id": "r7"})


def test_a_defect_is_logged_under_its_request_and_instance_and_its_caller_learns_nothing_of_it(caplog):
    with caplog.at_level(logging.ERROR):
        answer = error_answer(FRAME, RuntimeError("secret"))
    assert error_of(answer).code is ErrorCode.INTERNAL
    assert b"secret" not in answer.body
    (line,) = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    assert {"event": "operation_failed", "request_id": "r7", "instance_id": "s1.a"}.items() <= line.items()


def test_an_error_of_the_service_is_an_answer_and_no_log_line(caplog):
    with caplog.at_level(logging.ERROR):
        answer = error_answer(FRAME, ServiceError(ErrorCode.INSTANCE_BUSY))
    assert error_of(answer).code is ErrorCode.INSTANCE_BUSY
    assert not caplog.records
