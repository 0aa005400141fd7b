"""A catalog of numbered tasks: ids, payloads without ground truth, references."""

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.base import EnvironmentSetup
from sandbox_service.environments.shared.service.task_catalog import NumberedTask, TaskCatalog
from sandbox_service.errors import ServiceError


class Sums(TaskCatalog):
    name = "sums"
    description = "Add."
    splits = {"train": 3, "test-hard": 2}  # noqa: RUF012 - as small environments write it

    def make_task(self, split, number):
        return NumberedTask(
            f"1 + {number}?", {"sum": 1 + number}, [str(1 + number), {"content": None}], {"n": number}
        )


def test_tasks_are_numbered_within_their_split() -> None:
    catalog = Sums()
    assert catalog.task_ids("test-hard") == ["test-hard-0", "test-hard-1"]
    payload = catalog.payload("test-hard-1")
    assert payload.task == {"n": 1, "prompt": "1 + 1?", "category": "all", "max_steps": 1}
    assert (payload.grading, payload.max_steps) == ({"sum": 2}, 1)
    assert catalog.reference("train-2") == [
        {"role": "assistant", "content": "3"},
        {"role": "assistant", "content": None},
    ]


def test_its_descriptor_and_its_spec_agree() -> None:
    catalog = Sums(EnvironmentSetup({"size": 1}))
    described = catalog.describe()
    assert (described.name, described.default_split, described.max_steps) == ("sums", "train", 1)
    assert catalog.setup.settings == {"size": 1}
    assert catalog.spec.world_module == f"{__name__.rpartition('.')[0]}.box.world"


@pytest.mark.parametrize(
    "task_id", ["train-3", "train--1", "train-01", "train-\u0661", "train", "x-0", "train-9" * 9]
)
def test_other_ids_are_unknown(task_id) -> None:
    with pytest.raises(ServiceError) as caught:
        Sums().payload(task_id)
    assert caught.value.code is ErrorCode.UNKNOWN_TASK


def test_other_splits_are_unknown() -> None:
    with pytest.raises(ServiceError) as caught:
        Sums().task_ids("dev")
    assert caught.value.code is ErrorCode.UNKNOWN_SPLIT
