import pytest

from local_processes.waiting import Deadline, exponential_wait_s, wait_until


def test_a_condition_that_comes_true_ends_the_wait():
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers), Deadline.after(60), poll_s=0.001)


def test_a_condition_is_asked_once_when_the_deadline_has_passed_already():
    asked = []
    assert not wait_until(lambda: asked.append(1), Deadline.after(0), poll_s=60)
    assert asked == [1]


def test_an_error_of_the_condition_ends_the_wait():
    def broken():
        raise ConnectionError("the process has exited")

    with pytest.raises(ConnectionError, match="has exited"):
        wait_until(broken, Deadline.after(60))


def test_waits_double_up_to_the_longest_however_many_failures_there_were():
    assert [exponential_wait_s(0.5, 3.0, failures) for failures in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 3.0]
    assert exponential_wait_s(0.5, 3.0, 100_000) == 3.0
