"""Answers are held within a number of bytes, and no tenant pushes out those of others."""

from __future__ import annotations

from sandbox_service.supervisor.answers import AnswerMemory, KeyEntry
from sandbox_service.wire.frames import Frame, Op

_KIB = 1024


def _held(memory: AnswerMemory, tenant: str, size: int) -> KeyEntry:
    entry = KeyEntry(b"")
    memory.hold(tenant, entry, Frame(Op.REPLY, 1, body=b"x" * size))
    return entry


def test_bytes_are_bounded_and_the_oldest_answer_goes_first() -> None:
    memory = AnswerMemory(10 * _KIB)
    entries = [_held(memory, "ada", 4 * _KIB) for _ in range(3)]
    assert [entry.answer is not None for entry in entries] == [False, True, True]
    assert memory.held_bytes <= 10 * _KIB


def test_an_answer_that_was_asked_for_again_stays_longer() -> None:
    memory = AnswerMemory(10 * _KIB)
    first, second = _held(memory, "ada", 4 * _KIB), _held(memory, "ada", 4 * _KIB)
    memory.used("ada", first)
    _held(memory, "ada", 4 * _KIB)
    assert (first.answer is not None, second.answer is not None) == (True, False)


def test_the_tenant_that_holds_most_makes_room() -> None:
    memory = AnswerMemory(100 * _KIB)
    quiet = _held(memory, "ada", _KIB)
    for _ in range(50):
        _held(memory, "bob", 7 * _KIB)
    assert quiet.answer is not None


def test_an_answer_larger_than_the_bound_is_not_held() -> None:
    memory = AnswerMemory(_KIB)
    assert _held(memory, "ada", 2 * _KIB).answer is None
    assert memory.held_bytes == 0


def test_a_dropped_answer_gives_its_bytes_back_once() -> None:
    memory = AnswerMemory(10 * _KIB)
    entry = _held(memory, "ada", _KIB)
    memory.drop("ada", entry)
    memory.drop("ada", entry)
    memory.used("ada", entry)
    assert memory.held_bytes == 0
