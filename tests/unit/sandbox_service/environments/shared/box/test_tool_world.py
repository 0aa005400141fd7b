"""A tool is a method: its schema comes from its signature, and it gets valid arguments only."""

from typing import Literal

import pytest

from sandbox_service.environments.shared.box.tool_world import ToolWorld, tool
from sandbox_service.runner.world import Context, WorldError


class Counter(ToolWorld):
    SYSTEM = "Count."
    total = 0

    @tool
    def add(self, number: int, times: float = 1.0, how: Literal["up", "down"] = "up") -> str:
        """Add a number."""
        self.total += int(number * times) * (1 if how == "up" else -1)
        return str(self.total)

    @tool
    def stop(self, flag: bool, names: list, more: dict) -> str:
        """Stop."""
        self.done = True
        return "Stopped."

    def helper(self):
        raise AssertionError("no tool")

    def grade_task(self, grading):
        return self.total / grading["goal"]


def counter():
    world = Counter({"prompt": "Go.", "category": "all", "max_steps": 5}, Context("i", 0))
    return world, world.start()


def call(name, **arguments):
    return {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": name, "arguments": arguments}}],
    }


def answer(world, message):
    (told,) = world.step(message, 1.0).messages
    return told["content"]


def test_schemas_come_from_signatures_in_order_of_definition() -> None:
    _, start = counter()
    functions = [each["function"] for each in start.tools]
    assert [each["name"] for each in functions] == ["add", "stop"]
    assert functions[0]["description"] == "Add a number."
    assert functions[0]["parameters"] == {
        "type": "object",
        "properties": {
            "number": {"type": "integer"},
            "times": {"type": "number"},
            "how": {"type": "string", "enum": ["up", "down"]},
        },
        "required": ["number"],
        "additionalProperties": False,
    }
    kinds = {name: each["type"] for name, each in functions[1]["parameters"]["properties"].items()}
    assert kinds == {"flag": "boolean", "names": "array", "more": "object"}


def test_a_valid_call_is_answered_by_its_method() -> None:
    world, _ = counter()
    assert answer(world, call("add", number=4, times=2, how="down")) == "-8"
    outcome = world.step(call("stop", flag=True, names=[], more={}), 1.0)
    assert (outcome.terminated, outcome.messages[0]["tool_call_id"]) == (True, "c")
    assert answer(world, call("add", number=1)) == "Not done: the episode is over."


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (call("add"), "add needs the argument 'number'."),
        (call("add", number="4"), "The argument 'number' of add must be of the type integer."),
        (call("add", number=True), "The argument 'number' of add must be of the type integer."),
        (call("add", number=1, how="left"), "The argument 'how' of add must be one of up, down."),
        (call("add", number=1, size=2), "add has no argument 'size'; it has: number, times, how."),
        (call("helper"), "There is no tool 'helper'; there are: add, stop."),
        (call("__init__"), "There is no tool '__init__'; there are: add, stop."),
        (
            call("add", number=1, times=float("nan")),
            "The arguments hold a number that is not finite, such as NaN or Infinity.",
        ),
        ({"role": "assistant", "content": "hm"}, "Call one of the tools: add, stop."),
    ],
)
def test_any_other_call_is_answered_with_what_is_wrong(message, told) -> None:
    world, _ = counter()
    assert answer(world, message) == told
    assert world.total == 0


def test_a_grade_outside_of_the_unit_interval_is_refused() -> None:
    world, _ = counter()
    world.step(call("add", number=4), 1.0)
    assert world.evaluate({}, {"goal": 8}).score == 0.5
    assert world.evaluate({"sparse": True}, {"goal": 8}).score == 0.0
    for goal in (-4, float("nan")):
        with pytest.raises(ValueError, match="is not between 0 and 1"):
            world.evaluate({}, {"goal": goal})
    with pytest.raises(WorldError, match="is not between 0 and 1") as caught:
        world.evaluate({}, {"goal": 2})
    assert caught.value.code == "grader_failed"


def test_a_grade_that_rounding_took_out_of_the_unit_interval_counts() -> None:
    world, _ = counter()
    world.step(call("add", number=4), 1.0)
    for goal, score in ((4 - 1e-12, 1.0), (float("-inf"), 0.0)):
        verdict = world.evaluate({}, {"goal": goal})
        assert (verdict.score, verdict.success) == (score, score == 1.0)
