"""The cause of a failed grading is found in a copy of the process, within a deadline."""

import subprocess
import time
from collections.abc import Callable

import pytest

from sandbox_service.runner.messages.codec import MessageError
from sandbox_service.runner.worker.blame import is_of_machine, task_is_at_fault
from sandbox_service.runner.world import Context, JsonObject, Outcome, Start, Verdict, World, WorldError

TASK: JsonObject = {"items": ["pear"]}


class Engine(World):
    """A world that shares its state with all worlds of its process, and changes its task."""

    opened = 0

    def start(self) -> Start:
        Engine.opened += 1
        self.items = self.task["items"]
        return Start([])

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        self.items.append(message["content"])
        return Outcome([])

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        return Verdict(0.0, False)


def played() -> Engine:
    world = Engine({"items": ["pear"]}, Context("i", 0))
    world.start()
    world.step({"content": "poison"}, 1.0)
    return world


def at_fault(grade: Callable[[World], object], within_s: float = 5.0) -> bool:
    return task_is_at_fault(played(), TASK, grade, time.monotonic() + within_s)


def always(error: BaseException) -> Callable[[World], object]:
    def grade(world: World) -> object:
        raise error

    return grade


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), SystemExit(2), AssertionError()])
def test_a_grader_that_always_raises_is_at_fault(error: BaseException) -> None:
    assert at_fault(always(error))


@pytest.mark.parametrize("error", [OSError(), MemoryError(), MessageError(), WorldError("as told")])
def test_a_proof_that_the_machine_or_the_world_prevents_is_none(error: BaseException) -> None:
    assert not at_fault(always(error))


def test_a_grader_that_raises_at_what_the_agent_did_is_not_at_fault() -> None:
    def grade(world: World) -> object:
        assert isinstance(world, Engine)
        return {"pear": 1, "apple": 2}[world.items[-1]]

    with pytest.raises(KeyError):
        grade(played())
    assert not at_fault(grade)


def test_a_proof_leaves_the_process_as_it_was() -> None:
    world = played()
    before = Engine.opened
    assert task_is_at_fault(world, TASK, always(KeyError("x")), time.monotonic() + 5)
    assert Engine.opened == before
    assert world.items == ["pear", "poison"]


def test_a_proof_that_takes_too_long_is_none() -> None:
    def grade(world: World) -> object:
        time.sleep(60)
        raise KeyError("x")

    assert not at_fault(grade, within_s=0.2)
    assert not at_fault(always(KeyError("x")), within_s=-1.0)


def test_a_world_without_untouched_ones_gives_no_proof() -> None:
    class Single(Engine):
        def untouched(self, task: JsonObject):
            return iter(())

    world = Single({"items": []}, Context("i", 0))
    assert not task_is_at_fault(world, TASK, always(KeyError("x")), time.monotonic() + 5)


@pytest.mark.parametrize(
    ("error", "machine"),
    [
        (OSError(), True),
        (EOFError(), True),
        (subprocess.TimeoutExpired("true", 1), True),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("unknown item: can't start new thread"), False),
        (ValueError(), False),
    ],
)
def test_no_text_of_a_model_makes_an_exception_the_machines(error: Exception, machine: bool) -> None:
    assert is_of_machine(error) is machine
