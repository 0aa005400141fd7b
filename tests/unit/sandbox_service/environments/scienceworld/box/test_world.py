"""Rewards of actions after which the engine fails. Java and its packages are stand-ins."""

import importlib
import sys
from types import ModuleType

import pytest

from sandbox_service.runner.world import Context

BOX = "sandbox_service.environments.scienceworld.box"
TASK = {"id": "t", "task": "boil", "variation": 0, "category": "boil", "max_steps": 9}


def module(name, **content):
    made = ModuleType(name)
    made.__dict__.update(content)
    return made


@pytest.fixture
def world(monkeypatch):
    """The world's module, as it is imported in a box that has the packages."""
    stand_ins = (
        module("scienceworld"),
        module("scienceworld.constants", BASEPATH="/nowhere/scienceworld"),
        module("py4j"),
        module("py4j.java_gateway", GatewayParameters=None, JavaGateway=None, find_jar_path=None),
        module("py4j.protocol", Py4JError=OSError, Py4JJavaError=OSError),
    )
    stand_ins[0].constants = stand_ins[1]
    for each in stand_ins:
        monkeypatch.setitem(sys.modules, each.__name__, each)
    for name in ("world", "engine", "jvm"):
        # Undone at the end, so that no other test finds what was imported with the stand-ins.
        monkeypatch.setitem(sys.modules, f"{BOX}.{name}", ModuleType(name))
        del sys.modules[f"{BOX}.{name}"]
    return importlib.import_module(f"{BOX}.world")


class Game:
    """Each action but looking gives 40 points; the lists of valid actions after the first one fail."""

    def __init__(self, world):
        self.world = world
        self.points = 0
        self.listed = 0

    def templates(self):
        return ["wait"]

    def description(self):
        return "Boil water."

    def step(self, action):
        if action == "stumble":
            raise self.world.JavaError("NoSuchElementException")
        self.points += 0 if action.startswith("look") else 40
        return self.world.EngineObservation("Done.", self.points, False)

    def valid_actions(self):
        self.listed += 1
        if self.listed > 1:
            raise self.world.JavaError("NoSuchElementException")
        return ["wait"]


@pytest.fixture
def episode(world, monkeypatch):
    engine = module("engine", open=lambda *_: Game(world))
    monkeypatch.setattr(world, "ScienceWorldEngine", lambda: engine)
    made = world.ScienceWorld(TASK, Context("i", 0, {"valid_actions": True}))
    assert made.start().info["available_actions"] == ["wait"]
    return made


def test_an_action_keeps_its_reward_when_the_next_ones_cannot_be_listed(episode):
    step = episode.step({"role": "assistant", "content": "take kettle"}, 5.0)
    assert (step.messages[0]["content"], step.reward, step.info["score"]) == ("Done.", 0.4, 0.4)
    assert "available_actions" not in step.info
    assert episode.evaluate({}, {}).score == 0.4


def test_an_action_that_the_engine_cannot_carry_out_earns_nothing(episode):
    step = episode.step({"role": "assistant", "content": "stumble"}, 5.0)
    assert "could not carry out" in step.messages[0]["content"]
    assert (step.reward, step.info["score"], step.info["available_actions"]) == (0.0, 0.0, ["wait"])
