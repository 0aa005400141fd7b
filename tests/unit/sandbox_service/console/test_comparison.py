"""Episodes side by side."""

import pytest

from sandbox_contract.inspection import InstanceTrajectory
from sandbox_service.console.comparison import diff_lines, side_by_side
from sandbox_service.console.player import player


def episode(*said, answer="ok", code=None):
    """The player of an episode in which the agent said this, one message a step."""
    events = [{"sequence": 0, "operation": "create", "at": 10.0, "result": {}}]
    for number, text in enumerate(said, start=1):
        result = {
            "step_index": number - 1,
            "observation": {"messages": [{"role": "tool", "content": answer}]},
        }
        if code is not None and number == len(said):
            result = {"code": code, "failure_class": "timeout", "detail": "too late"}
        request = {"message": {"role": "assistant", "content": text}}
        timing = {"run_ms": 10.0 * number}
        events.append(
            {
                "sequence": number,
                "operation": "step",
                "at": 10.0 + number,
                "request": request,
                "result": result,
                "timing": timing,
            }
        )
    head = {"instance_id": "i", "environment": "echo", "task_id": "t", "tenant": "acme"}
    return player(InstanceTrajectory.model_validate({**head, "events": events}))


def test_equal_episodes_do_not_diverge():
    view = side_by_side([episode("a", "b"), episode("a", "b")])
    assert view.divergence is None
    assert all(row.same and not row.diff for row in view.rows)


def test_a_step_that_only_one_has_stands_alone_and_the_others_stay_aligned():
    view = side_by_side([episode("a", "b", "c"), episode("a", "c")])
    steps = [tuple(step and step.title for step in row.steps) for row in view.rows]
    assert steps == [("create", "create"), ("step 0", "step 0"), ("step 1", None), ("step 2", "step 1")]
    assert view.divergence == 2


def test_the_same_action_with_another_answer_is_no_divergence_but_shown():
    view = side_by_side([episode("a", answer="yes"), episode("a", answer="no")])
    assert view.divergence is None
    assert [line.kind for line in view.rows[1].diff] == ["both", "both", "both", "left", "right"]


def test_more_than_two_are_compared_by_number():
    view = side_by_side([episode("a", "b"), episode("a", "b"), episode("a", "x", "y")])
    assert [row.same for row in view.rows] == [True, True, False, False]
    assert view.rows[3].steps[0] is None


def test_a_page_compares_a_bounded_number_of_lines_and_says_which_steps_it_does_not():
    # The texts of a step have 404 lines each, so that nine steps have at most 8,000 and ten more.
    ones, others = ([f"{name} {number}\n" * 400 for number in range(20)] for name in ("one", "another"))
    rows = side_by_side([episode(*ones), episode(*others)]).rows
    compared = [row for row in rows if row.diff]
    assert len(compared) == 9
    assert sum(2 if line.kind == "both" else 1 for row in compared for line in row.diff) <= 8000
    assert [row.too_long for row in rows] == [False] * 10 + [True] * 11


def test_lines_that_long_texts_repeat_do_not_align_them():
    left = "".join(f"test {number} passed\n\n" for number in range(499))
    right = "".join(f"test {number} failed\n\n" for number in range(499))
    kinds = [line.kind for line in diff_lines(left, right)]
    assert kinds == ["left"] * 998 + ["right"] * 998


@pytest.mark.parametrize(("left", "right"), [("a\n" * 1500, "b\n" * 1500)])
def test_texts_too_long_to_compare_are_not_compared(left, right):
    assert diff_lines(left, right) == ()


def test_a_failed_step_has_its_class_and_timing_bars_are_shares_of_the_longest():
    view = episode("a", "b", code="step_timeout")
    assert (view.failure.failure_class, view.failure.code) == ("timeout", "step_timeout")
    assert [part.width for step in view.steps for part in step.bar] == [50.0, 100.0]
