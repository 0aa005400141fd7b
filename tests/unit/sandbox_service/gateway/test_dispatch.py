import pytest

from sandbox_contract.episodes import CreateInstanceRequest, StepRequest
from sandbox_contract.messages import Message
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import DeadlineConfig
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.dispatch import Deadlines, encode_request
from sandbox_service.wire.frames import Op

DEADLINE = DeadlineConfig(start_s=7, create_s=3, step_s=50, evaluate_s=100, agent_s=200)


@pytest.mark.parametrize(
    ("op", "requested_s", "longest_s"),
    [
        (Op.STEP, None, 50),
        (Op.STEP, 20, 20),
        (Op.STEP, 90, 50),
        (Op.RUN_AGENT, 90, 90),
        (Op.EVALUATE, None, 100),
    ],
)
def test_an_operation_may_take_its_deadline_after_a_box_was_started_and_set_up(
    op: Op, requested_s: float | None, longest_s: float
) -> None:
    waits_s = Deadlines(DEADLINE, queue_timeout_s=0).timeout_of(op, requested_s)
    assert longest_s + 7 + 3 < waits_s < longest_s + 7 + 3 + 30


def test_the_gateway_waits_for_the_longest_grading_that_a_task_may_ask_for() -> None:
    plain = Deadlines(DEADLINE, queue_timeout_s=0).timeout_of(Op.EVALUATE)
    assert Deadlines(DEADLINE, 0, max_evaluate_s=900).timeout_of(Op.EVALUATE) == plain + 800
    assert Deadlines(DEADLINE, 0, max_evaluate_s=90).timeout_of(Op.EVALUATE) == plain


LARGE = "x" * (1024 * 1024)


def test_what_the_supervisor_parses_is_bounded() -> None:
    request = CreateInstanceRequest(environment="echo", task_id="t", params={"large": LARGE})
    with pytest.raises(ServiceError) as caught:
        encode_request(request)
    assert caught.value.code is ErrorCode.BODY_TOO_LARGE


def test_a_step_which_the_supervisor_only_forwards_may_be_larger() -> None:
    request = StepRequest(instance_id="one", message=Message(role="assistant", content=LARGE))
    assert len(encode_request(request).body) > len(LARGE)
