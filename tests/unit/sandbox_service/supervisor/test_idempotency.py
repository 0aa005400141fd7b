"""The memory of keys is bounded, and forgets answers before keys."""

from __future__ import annotations

import asyncio

from sandbox_service.supervisor.answers import AnswerMemory
from sandbox_service.supervisor.idempotency import KeyMemory, digest_of, same_json
from sandbox_service.wire.frames import Frame, Op


async def _task() -> asyncio.Task[Frame]:
    async def work() -> Frame:
        return Frame(Op.REPLY, 1)

    task = asyncio.get_running_loop().create_task(work())
    await task
    return task


async def test_only_the_latest_answers_are_kept_whole() -> None:
    memory: KeyMemory[str] = KeyMemory(AnswerMemory(10_000), answers=2, keys=10)
    task = await _task()
    for key in "abc":
        memory.begin(key, b"", task)
        memory.settle("ada", key, Frame(Op.REPLY, 1))
    kept = {key: memory.get(key).answer is not None for key in "abc"}
    assert kept == {"a": False, "b": True, "c": True}


async def test_keys_are_bounded() -> None:
    memory: KeyMemory[str] = KeyMemory(AnswerMemory(10_000), answers=2, keys=3)
    task = await _task()
    for key in "abcdef":
        memory.begin(key, b"", task)
        memory.settle("ada", key, Frame(Op.REPLY, 1))
    assert len(memory) == 3
    assert memory.get("a") is None


async def test_a_running_key_is_never_dropped() -> None:
    memory: KeyMemory[str] = KeyMemory(AnswerMemory(10_000), answers=1, keys=1)
    memory.begin("running", b"", await _task())
    memory.recall("later", b"")
    assert memory.get("running") is not None


async def test_a_forgotten_key_is_free() -> None:
    memory: KeyMemory[str] = KeyMemory(AnswerMemory(10_000))
    memory.begin("a", b"", await _task())
    memory.forget("a")
    assert memory.get("a") is None


def test_the_fingerprint_tells_operations_and_bodies_apart() -> None:
    prints = {digest_of(op, body) for op in (Op.STEP, Op.EVALUATE) for body in (b"", b"{}")}
    assert len(prints) == 4


def test_bodies_are_compared_by_what_they_say() -> None:
    assert same_json(b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }')
    assert not same_json(b'{"a":1}', b'{"a":2}')
    assert not same_json(b"{", b"[")


def test_large_bodies_are_not_read_to_be_compared() -> None:
    filler = b'"' + b"x" * 100_000 + b'"'
    left, right = b'{"a":1,"b":%s}' % filler, b'{"b":%s,"a":1}' % filler
    assert same_json(left, bytes(left))
    assert not same_json(left, right)
