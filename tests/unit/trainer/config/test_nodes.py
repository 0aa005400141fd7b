"""A run's parts ask for next to nothing of the resource that marks their nodes."""

import pytest

from trainer.config import EngineConfig, LearnerConfig
from trainer.config.nodes import part_of
from trainer.engines.placement import actor_options, engine_resources
from trainer.launch.fit import scaling


def test_without_a_resource_nothing_is_asked_for() -> None:
    assert part_of(None) == {}
    assert engine_resources(EngineConfig(), "cpu") == {"CPU": 1.0}


def test_an_engine_and_its_actor_ask_for_a_part_of_the_resource() -> None:
    resources = engine_resources(EngineConfig(node_resource="engine"), "cpu")
    assert resources == {"CPU": 1.0, "engine": pytest.approx(0.001)}
    assert actor_options(resources)["resources"] == {"engine": 0.001}


def test_a_worker_asks_for_a_part_of_the_resource() -> None:
    asked = scaling(LearnerConfig(node_resource="learner"), None).resources_per_worker
    assert asked == {"CPU": 1.0, "learner": 0.001}
