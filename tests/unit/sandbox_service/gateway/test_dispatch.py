import pytest

from sandbox_service.config import DeadlineConfig
from sandbox_service.gateway.dispatch import Deadlines
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
