"""An evaluation in parts grades the present step as it was when it began, and leaves it to the agent."""

from __future__ import annotations

import time

import pytest

from sandbox_service.environments.harbor.box.room import LEAST_ARCHIVE, Room
from sandbox_service.environments.harbor.box.world import HarborWorld
from sandbox_service.runner.kernel.cpu_usage import CpuUsage
from sandbox_service.runner.world import Context, Execution
from sandbox_service.wire.json_types import JsonObject

SUBMIT: JsonObject = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "submit", "arguments": "{}"}}],
}


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of this machine, which are no box's, have room."""
    monkeypatch.setattr(Room, "is_taken", lambda _: False)


class Verifier:
    """A verifier whose tests like all files."""

    def __init__(self, tested: list[str]) -> None:
        self._tested = tested

    def request(self, message: JsonObject, timeout_s: float) -> JsonObject:
        if message["do"] == "unpack":
            self._tested.append(message["archive"])
        return {"reached": True, "ended": True, "exit_code": 0, "reward_txt": "1"}

    def usage(self, enough_s: float = 0.0) -> CpuUsage:
        return CpuUsage()

    def close(self) -> None:
        pass


class Agent:
    """An agent whose files are one word, and too many to be kept as a whole."""

    workspace = "/workspace/1"

    def __init__(self) -> None:
        self.files = ""
        self.tested: list[str] = []
        self.copied = 0
        self.killed = 0

    def shell(self, command: str, *_: object) -> Execution:
        if "shopt" in command:
            return Execution("", 0, truncated=True)
        if "base64 -w0" in command:
            self.copied += 1
            return Execution(self.files, 0)
        if "base64 -d" in command:
            self.files = command.splitlines()[1]
        return Execution("", 0)

    def write_files(self, _: JsonObject) -> None:
        pass

    def kill(self) -> None:
        self.killed += 1

    def remove_files(self, *_: object) -> None:
        self.files = ""

    def candidate(self, _: str, *, sockets: bool) -> Verifier:
        assert sockets, "tests may start servers"
        return Verifier(self.tested)


def step(name: str, artifacts: list[JsonObject] | None = None) -> JsonObject:
    return {
        "name": name,
        "instruction": "Go on.",
        "files": {},
        "agent_timeout_s": None,
        "collect": [],
        "artifacts": artifacts,
        "archive_bytes": LEAST_ARCHIVE,
    }


def begun(agent: Agent) -> HarborWorld:
    """Return a world whose agent has ended the first of two steps, and has begun the second."""
    task = {
        "category": "",
        "info": {},
        "env": {},
        "packages": False,
        "image": False,
        "separate": False,
        "for_verifier": False,
        "files": {},
        "steps": [step("one"), step("two")],
        "max_steps": 9,
        "tool_timeout_s": 1.0,
        "max_output_bytes": 1000,
        "archive_bytes": LEAST_ARCHIVE,
        "all_archives_bytes": 2 * LEAST_ARCHIVE,
    }
    world = HarborWorld(task, Context("i", 0, {}, agent))  # type: ignore[arg-type]
    world.start()
    agent.files = "Zmlyc3Q="
    world.step(SUBMIT, 30.0)
    agent.files = "c2Vjb25k"
    return world


def grade(world: HarborWorld, index: int, *, untouched: bool = False) -> JsonObject:
    tests = {"files": {}, "tests_in_image": False, "env": {}, "timeout_s": 1.0, "artifacts": []}
    steps = [{"name": name, "min_reward": {}, "separate": True, **tests} for name in ("one", "two")]
    part = {"index": index, "untouched": untouched}
    grading = {"strategy": "mean", "reward_range": [0.0, 1.0], "steps": steps, "part": part}
    return dict(world.evaluate({}, grading).details)


@pytest.mark.parametrize("untouched", [False, True])
def test_the_tests_of_an_earlier_step_leave_the_present_one_as_it_is(untouched: bool) -> None:
    agent = Agent()
    world = begun(agent)
    assert world.count_parts() == 2
    assert agent.killed > 0
    assert grade(world, 0, untouched=untouched) == {"rewards": {"reward": 1.0}}
    assert agent.files == "c2Vjb25k"
    grade(world, 1)
    assert agent.tested[-1] == "c2Vjb25k"


def test_an_evaluation_in_parts_copies_the_present_step_once_and_the_next_one_anew() -> None:
    agent = Agent()
    world = begun(agent)
    before = agent.copied
    world.count_parts()
    # Whatever changes the files until its turn comes.
    agent.files = "bGF0ZXI="
    for index in (0, 1):
        grade(world, index)
    assert world.export_work({"index": 1})["work"] == "c2Vjb25k"
    assert agent.copied == before + 1
    agent.files = "dGhpcmQ="
    world.count_parts()
    assert world.export_work({"index": 1})["work"] == "dGhpcmQ="
    assert agent.copied == before + 2


def test_a_step_that_has_ended_is_graded_as_it_was_then() -> None:
    agent = Agent()
    world = begun(agent)
    world.count_parts()
    agent.files = "bGFzdA=="
    world.seal()
    copied = agent.copied
    assert world.count_parts() == 2
    assert world.export_work({"index": 1})["work"] == "bGFzdA=="
    grade(world, 0)
    assert agent.files == "bGFzdA=="
    assert agent.copied == copied


def test_an_end_that_is_tried_again_later_still_has_time_for_the_hooks() -> None:
    world = begun(Agent())
    world.task["steps"][1]["collect"] = [{"command": "true", "timeout_s": 5.0}]
    world.step_deadline = time.monotonic() - 1
    world.seal()
    assert world.copies.failed_hooks == []
