"""The tasks of a run, as the service tells them."""

import pytest

from sandbox_client.errors import Failure, NotFoundError, SandboxFailure, TaskError, TransportError
from sandbox_contract.episodes import CreateInstanceResult, EnvProfile, Observation
from sandbox_contract.problems import FailureClass
from trainer.errors import DataError, ServiceUnavailable
from trainer.tasks.catalog import difficulties, list_tasks
from trainer.types import TaskRef


def error(kind, code="x", failure_class=FailureClass.SANDBOX, sentence="said by the test"):
    return kind(Failure(sentence, code, failure_class))


class Service:
    """Splits of known sizes; tasks whose difficulty is the first letter of their id."""

    def __init__(self, splits, failing=None):
        self.splits = splits
        self.failing = failing or {}
        self.live = set()
        self.most_live = 0

    async def get_env_profile(self, environment, split=None, *, offset=0, limit=None):
        if "list" in self.failing:
            raise self.failing["list"]
        name = split or "default"
        if name not in self.splits:
            raise error(NotFoundError, "unknown_split", FailureClass.REQUEST, f"there is no {name}")
        ids = self.splits[name][:limit]
        return EnvProfile(environment=environment, split=name, task_ids=ids, total=len(self.splits[name]))

    async def create_instance(self, environment, task_id, *, params=None):
        if task_id in self.failing:
            raise self.failing[task_id]
        self.live.add(task_id)
        self.most_live = max(self.most_live, len(self.live))
        return CreateInstanceResult(
            instance_id=f"code-{task_id}",
            environment=environment,
            task_id=task_id,
            observation=Observation(messages=()),
            info={"difficulty": task_id[0]},
        )

    async def release_instance(self, instance_id):
        self.live.remove(instance_id.removeprefix("code-"))


SPLITS = {"a": ("a1", "a2", "a3"), "b": ("b1", "b2"), "default": ("d1",), "empty": ()}


async def test_splits_follow_each_other() -> None:
    tasks = await list_tasks(Service(SPLITS), "code", ["b", "a"])
    assert [(task.split, task.task_id) for task in tasks] == [
        *(("b", "b1"), ("b", "b2")),
        *(("a", "a1"), ("a", "a2"), ("a", "a3")),
    ]


@pytest.mark.parametrize(
    ("limit", "listed"),
    [
        (2, ["a1", "b1"]),
        (3, ["a1", "a2", "b1"]),
        (4, ["a1", "a2", "b1", "b2"]),
        (5, ["a1", "a2", "a3", "b1", "b2"]),
        (9, ["a1", "a2", "a3", "b1", "b2"]),
    ],
)
async def test_a_limit_is_divided_equally_and_a_short_split_leaves_the_others_its_part(limit, listed):
    assert [task.task_id for task in await list_tasks(Service(SPLITS), "code", ["a", "b"], limit)] == listed


async def test_a_limit_that_the_first_split_could_fill_asks_for_the_others() -> None:
    with pytest.raises(DataError, match="there is no missing"):
        await list_tasks(Service(SPLITS), "code", ["a", "missing"], limit=3)


@pytest.mark.parametrize(("splits", "limit", "least"), [(("a", "b"), 1, 2), ((), 0, 1)])
async def test_a_limit_with_no_task_for_a_split_is_refused(splits, limit, least):
    with pytest.raises(DataError, match=f"a limit of {limit} tasks cannot be .* raise it to {least} or more"):
        await list_tasks(Service(SPLITS), "code", splits, limit)


async def test_without_splits_the_default_one_is_named():
    assert await list_tasks(Service(SPLITS), "code", []) == (TaskRef("code", "default", "d1"),)


async def test_an_empty_split_is_an_error():
    with pytest.raises(DataError, match="no tasks in empty"):
        await list_tasks(Service(SPLITS), "code", ["empty"])


async def test_an_unknown_split_is_the_users_error_and_a_dead_service_is_not():
    with pytest.raises(DataError, match="unknown_split"):
        await list_tasks(Service(SPLITS), "code", ["c"])
    with pytest.raises(ServiceUnavailable):
        await list_tasks(Service(SPLITS, {"list": error(TransportError)}), "code", ["a"])


async def test_difficulties_come_from_instances_which_are_released():
    service = Service(SPLITS)
    tasks = tuple(TaskRef("code", "a", f"{'xy'[number % 2]}{number}") for number in range(40))
    told = await difficulties(service, tasks)
    assert [task.difficulty for task in told] == ["x", "y"] * 20
    assert not service.live
    assert service.most_live <= 16


async def test_a_broken_task_keeps_its_difficulty_unknown():
    service = Service(SPLITS, {"a1": error(TaskError, "task_invalid", FailureClass.TASK)})
    told = await difficulties(service, (TaskRef("code", "a", "a1"), TaskRef("code", "a", "a2")))
    assert [task.difficulty for task in told] == ["", "a"]


async def test_a_service_that_fails_ends_the_listing():
    service = Service(SPLITS, {"a2": error(SandboxFailure, "sandbox_failed")})
    with pytest.raises(ServiceUnavailable, match="a2"):
        await difficulties(service, (TaskRef("code", "a", "a1"), TaskRef("code", "a", "a2")))
