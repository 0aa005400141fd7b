"""Baselines are played through a real service, on the tasks of an evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.documentation import ROOT
from trainer.config.reading import read_run
from trainer.errors import ConfigError
from trainer.launch.baseline import evaluate_baseline
from trainer.launch.service import sandbox_service

pytest.importorskip("ray", reason="Ray is not installed")

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory):
    config = read_run(None, ["service.start=['sandbox.kind=process']", "service.start_timeout_s=300"])
    with sandbox_service(config.service, ("code",), tmp_path_factory.mktemp("logs")) as url:
        yield url


def run(url: str, *words: str):
    demo = Path(ROOT) / "deploy" / "runs" / "cpu_demo.toml"
    return read_run(demo, [f"service.url={url}", "evaluation.limit=6", "evaluation.episodes=2", *words])


def test_the_reference_solves_the_tasks_and_an_empty_answer_none(url: str) -> None:
    reference = evaluate_baseline(run(url), "reference")
    assert (len(reference.tasks), reference.episodes, reference.success_rate) == (6, 12, 1.0)
    assert (reference.environment, reference.split) == ("code", "arithmetic_test_easy")
    assert all(task.totals is not None and task.totals.reward == 2.0 for task in reference.tasks)
    empty = evaluate_baseline(run(url), "empty")
    # In the order in which their episodes ended.
    assert {task.task_id for task in empty.tasks} == {task.task_id for task in reference.tasks}
    assert (empty.successes, empty.failures) == (0, 0)
    assert all(task.causes for task in empty.tasks)


def test_an_unknown_policy_and_an_unknown_split_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="unknown policy 'clever'"):
        evaluate_baseline(run(url), "clever")


def test_each_source_is_played_with_its_own_parameters(url: str) -> None:
    sources = (
        'tasks.sources=[{name="open",environment="code",held_out=["arithmetic_test_easy"]},'
        '{name="files",environment="code",held_out=["arithmetic_test"],params={no_such=1}}]'
    )
    words = ("tasks.splits=[]", "evaluation.splits=[]", sources, "evaluation.limit=2")
    result = evaluate_baseline(run(url, *words), "reference")
    assert [(task.source, task.split) for task in result.tasks] == [
        *[("open", "arithmetic_test_easy")] * 2,
        *[("files", "arithmetic_test")] * 2,
    ]
    assert [task.successes for task in result.tasks] == [2, 2, 0, 0]
    assert [task.failures for task in result.tasks] == [0, 0, 2, 2]


def test_parameters_that_the_environment_does_not_have_are_failures_of_each_episode(url: str) -> None:
    result = evaluate_baseline(run(url, "evaluation.params={no_such=1}"), "reference")
    assert (result.episodes, result.failures) == (0, 12)
    assert all(task.failure_classes == {"request": 2} for task in result.tasks)


def test_a_baseline_cannot_play_against_the_runs_own_policy(url: str) -> None:
    with pytest.raises(ConfigError, match=r"by evaluation\.params"):
        evaluate_baseline(run(url, 'rollout.counterpart.kind="policy"'), "reference")
