"""Parameters of create requests: those of the run, over them a source's, over both those of the episode."""

from tests.fakes.batches import run_config
from trainer.tasks.create_params import create_params

SOURCES = [
    {"name": "sums", "environment": "code", "params": {"b": 2, "c": 2}},
    {"environment": "openspiel"},
]


def test_later_parameters_take_precedence() -> None:
    config = run_config(tasks={"sources": SOURCES}, rollout={"params": {"a": 1, "b": 1, "c": 1}})
    assert create_params(config.rollout, config.tasks, "sums", {"c": 3}) == {"a": 1, "b": 2, "c": 3}
    assert create_params(config.rollout, config.tasks, "sums") == {"a": 1, "b": 2, "c": 2}
    assert create_params(config.rollout, config.tasks, "openspiel") == {"a": 1, "b": 1, "c": 1}


def test_a_run_of_one_environment_has_no_source() -> None:
    config = run_config(rollout={"params": {"a": 1}})
    assert create_params(config.rollout, config.tasks, "", {"b": 2}) == {"a": 1, "b": 2}
    assert create_params(config.rollout, config.tasks, "") == config.rollout.params
