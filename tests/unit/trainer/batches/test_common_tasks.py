"""Held-out tasks that are trained on under another name of their split are reported, once a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_contract.episodes import EnvProfile
from tests.fakes.batches import FakePlayer, FakeTaskService, batch_producer, run_config
from trainer.batches.common_tasks import check_default_splits, common_tasks
from trainer.batches.events import TasksListed
from trainer.errors import DataError
from trainer.types import TaskRef


def listed(trained: list[str], held_out: list[str]) -> TasksListed:
    """Tasks written ``ENVIRONMENT/SPLIT/ID``."""
    return TasksListed(
        tuple(TaskRef(*each.split("/")) for each in trained),
        tuple(TaskRef(*each.split("/")) for each in held_out),
    )


def warning(found: TasksListed, **settings: object) -> str | None:
    config = run_config(**settings)
    return common_tasks(found, config.tasks, config.evaluation)


class SplitService(FakeTaskService):
    """``all`` has the tasks of ``train`` and ``test``; the default split is configurable."""

    SPLITS = {"train": ("a", "b"), "test": ("c", "d", "e"), "all": ("a", "b", "c", "d", "e")}  # noqa: RUF012

    def __init__(self, default: str = "train") -> None:
        super().__init__()
        self.default = default

    async def get_env_profile(self, environment, split=None, *, offset=0, limit=None):
        name = split or self.default
        ids = self.SPLITS[name][:limit]
        return EnvProfile(environment=environment, split=name, task_ids=ids, total=len(self.SPLITS[name]))


def test_a_split_within_another_is_reported_with_the_number_of_its_tasks() -> None:
    found = listed(["code/all/1", "code/all/2", "code/all/3"], ["code/test/2", "code/test/3", "code/test/4"])
    said = warning(found, tasks={"splits": ["all"]}, evaluation={"splits": ["test"]})
    assert said is not None
    assert said.startswith(
        "2 of 3 held-out tasks are among the training tasks (2 of code/test in code/all): success on them"
    )


def test_a_default_split_that_is_evaluated_by_its_name_is_reported() -> None:
    found = listed(["textcraft/train/1"], ["textcraft/train/1"])
    said = warning(found, tasks={"environment": "textcraft"}, evaluation={"splits": ["train"]})
    assert said is not None
    assert "1 of textcraft/train in textcraft/train" in said


def test_a_task_of_two_sources_and_two_splits_counts_once() -> None:
    found = listed(
        ["code/all/1", "code/easy/1", "code/all/2"],
        ["code/test/1", "code/dev/1", "code/test/2", "code/test/3"],
    )
    said = warning(found, tasks={"splits": ["all", "easy"]}, evaluation={"splits": ["test", "dev"]})
    assert said is not None
    assert said.startswith(
        "2 of 3 held-out tasks are among the training tasks (1 of code/dev in code/all, 1 of code/dev in "
        "code/easy, 2 of code/test in code/all, 1 of code/test in code/easy): "
    )


@pytest.mark.parametrize(
    ("found", "splits"),
    [
        (listed(["code/a/1"], ["code/b/2"]), (["a"], ["b"])),
        (listed(["code/a/1"], ["bfcl/a/1"]), (["a"], ["bfcl/a"])),
        (listed(["code/a/1"], ["code/a/1"]), (["a"], ["a"])),
        (listed(["code/a/1"], []), (["a"], [])),
    ],
    ids=["apart", "other_environment", "named_for_both", "nothing_held_out"],
)
def test_tasks_apart_and_a_split_that_the_run_file_names_for_both_are_not_reported(found, splits) -> None:
    assert warning(found, tasks={"splits": splits[0]}, evaluation={"splits": splits[1]}) is None


async def test_the_warning_is_logged_at_each_start_and_not_where_a_lost_process_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = run_config(tasks={"splits": ["all"]}, evaluation={"splits": ["test"]})
    for go_on, times in ((False, 1), (False, 2), (True, 2)):
        made = batch_producer(config, tmp_path, FakePlayer(), service=SplitService())
        await made.start(go_on=go_on)
        await made.close()
        assert caplog.text.count("3 of 3 held-out tasks are among the training tasks") == times


async def test_a_default_split_for_evaluation_is_trained_on_only_where_that_is_allowed(
    tmp_path: Path,
) -> None:
    with pytest.raises(DataError, match=r"test, the default split of code, is for evaluation"):
        await batch_producer(run_config(), tmp_path, FakePlayer(), service=SplitService("test")).start()
    allowed = run_config(tasks={"allow_evaluation_splits": True})
    made = batch_producer(allowed, tmp_path, FakePlayer(), service=SplitService("test"))
    await made.start()
    await made.close()


def test_a_split_that_is_named_is_left_to_the_check_of_the_run_file() -> None:
    config = run_config(tasks={"sources": [{"environment": "code"}, {"environment": "echo"}]})
    check_default_splits(listed(["code/train/1", "echo/all/1"], []), config.tasks)
    with pytest.raises(DataError, match="test, the default split of echo"):
        check_default_splits(listed(["code/train/1", "echo/test/1"], []), config.tasks)
