from __future__ import annotations

from sandbox_service.stream.options import BackOff


def test_there_is_no_pause_before_the_first_attempt():
    assert BackOff(0.1, 1.0).pause() == 0.0


def test_pauses_grow_with_failures_and_stay_under_the_ceiling():
    back_off = BackOff(0.1, 1.0)
    for failures in range(1, 100):
        back_off.failed("refused")
        assert 0.0 <= back_off.pause() <= min(1.0, 0.1 * 2 ** (failures - 1))


def test_pauses_differ_so_that_many_clients_do_not_come_back_at_once():
    back_off = BackOff(0.1, 1.0)
    back_off.failed("refused")
    assert len({back_off.pause() for _ in range(20)}) > 10


def test_a_success_forgets_the_failures():
    back_off = BackOff(0.1, 1.0)
    back_off.failed("refused")
    back_off.succeeded()
    assert back_off.pause() == 0.0
    assert back_off.last_failure == ""
