import json
from pathlib import Path

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ReasoningGymConfig
from sandbox_service.environments.base import Provisions
from sandbox_service.environments.reasoning_gym.service.catalog import ReasoningGymCatalog
from sandbox_service.errors import ServiceError

LEVEL = {
    "digest": "aaaa1111",
    "config": {},
    "floor": 0.01,
    "fixed": None,
    "milliseconds": 0.1,
    "repeated": 0.0,
}
SLOW = {**LEVEL, "digest": "cccc3333", "config": {"n": 9}, "fixed": "slow"}
DATASETS = {
    "chain_sum": {"category": "arithmetic", "levels": {"default": LEVEL, "hard": SLOW}, "rejected": {}},
    "maze": {"category": "games", "levels": {"easy": {**LEVEL, "digest": "bbbb2222"}}, "rejected": {}},
}
TASKS = [
    ("chain_sum/default-aaaa1111/1000000/0", "test"),
    ("chain_sum/default-aaaa1111/0/0", "train"),
    ("chain_sum/hard-cccc3333/1000000/0", "test"),
    ("chain_sum/hard-cccc3333/0/0", "train"),
    ("maze/easy-bbbb2222/1000001/0", "validation"),
    ("maze/easy-bbbb2222/0/0", "train"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    (data / "datasets.json").write_text(json.dumps({"datasets": DATASETS, "left_out": {}}))
    lines = [json.dumps({"id": task_id, "split": split, "answer": "7"}) for task_id, split in TASKS]
    (data / "tasks.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def catalog(folder: Path, **settings: int) -> ReasoningGymCatalog:
    return ReasoningGymCatalog(ReasoningGymConfig(**settings), Provisions(folder, "digest"))


def test_prepared_tasks_are_split_by_dataset_category_and_level(folder: Path) -> None:
    found = catalog(folder)
    splits = {split.name: found.task_ids(split.name) for split in found.describe().splits}
    assert {name: len(ids) for name, ids in splits.items()} == {
        **{"train": 3, "validation": 1, "test": 2},
        **{"default_train": 1, "default_test": 1, "hard_train": 1, "hard_test": 1, "easy_train": 1},
        **{"arithmetic_train": 2, "arithmetic_test": 2, "games_train": 1},
        **{"chain_sum_train": 2, "chain_sum_test": 2, "maze_train": 1},
    }


def test_another_seed_gives_other_training_tasks_and_the_same_held_out_ones(folder: Path) -> None:
    before, after = catalog(folder), catalog(folder, seed=5, tasks_per_level=3)
    assert after.task_ids("test") == before.task_ids("test")
    assert after.task_ids("maze_train") == tuple(f"maze/easy-bbbb2222/5/{index}" for index in range(3))


def test_more_test_tasks_come_from_the_held_out_seed_and_leave_training_as_it_is(folder: Path) -> None:
    before, after = catalog(folder), catalog(folder, test_tasks_per_level=2)
    assert after.task_ids("train") == before.task_ids("train")
    assert after.task_ids("test") == (
        "chain_sum/hard-cccc3333/1000000/0",
        *(f"chain_sum/default-aaaa1111/1000000/{index}" for index in range(2)),
        *(f"maze/easy-bbbb2222/1000000/{index}" for index in range(2)),
    )


@pytest.mark.parametrize("settings", [{"seed": 5}, {"tasks_per_level": 3}, {"test_tasks_per_level": 2}])
def test_only_tasks_that_were_not_prepared_may_repeat_each_other(
    folder: Path, settings: dict[str, int]
) -> None:
    assert catalog(folder).spec.repeats == ""
    assert "not compared" in catalog(folder, **settings).spec.repeats


def test_slow_levels_keep_their_prepared_tasks(folder: Path) -> None:
    assert catalog(folder, seed=5).task_ids("hard_train") == ("chain_sum/hard-cccc3333/0/0",)


def test_a_task_of_any_seed_can_be_created(folder: Path) -> None:
    found = catalog(folder)
    payload = found.payload("maze/easy-bbbb2222/123456/999")
    assert (payload.task["seed"], payload.task["index"], payload.task["prepared"]) == (123456, 999, False)
    assert payload.grading == {}
    assert found.reference("maze/easy-bbbb2222/123456/999") == []
    assert found.payload("maze/easy-bbbb2222/0/0").task["prepared"] is True
    assert found.reference("maze/easy-bbbb2222/0/0") == [
        {"role": "assistant", "content": "<answer>7</answer>"}
    ]


@pytest.mark.parametrize(
    ("task_id", "why"),
    [
        ("maze", "an id is DATASET/LEVEL-DIGEST/SEED/INDEX"),
        ("maze/easy-bbbb2222/-1/0", "an id is"),
        ("maze/easy-bbbb2222/0/x", "an id is"),
        ("maze/easy-bbbb2222/01/0", "an id is"),
        ("maze/easy-bbbb2222/0/00", "an id is"),
        ("maze/easy-bbbb2222/\u0661/0", "an id is"),
        pytest.param(f"maze/easy-bbbb2222/{'9' * 5000}/0", "an id is", id="five thousand digits"),
        ("golf/easy-bbbb2222/0/0", "dataset or level is not offered"),
        ("maze/hard-bbbb2222/0/0", "dataset or level is not offered"),
        ("maze/easy-aaaa1111/0/0", "has the digest bbbb2222 here"),
        ("maze/easy-bbbb2222/0/1000", "indexes less than 1000"),
        ("maze/easy-bbbb2222/2000000/0", "seeds are less than 2000000"),
    ],
)
def test_an_id_of_no_task_is_refused_with_what_is_wrong(folder: Path, task_id: str, why: str) -> None:
    with pytest.raises(ServiceError, match=why) as caught:
        catalog(folder).payload(task_id)
    assert caught.value.code is ErrorCode.UNKNOWN_TASK


def test_prepared_data_that_cannot_be_read_is_an_error_with_its_path(folder: Path) -> None:
    (folder / "data" / "datasets.json").write_text("{}")
    with pytest.raises(ServiceError, match=r"datasets\.json cannot be read: datasets: field required$"):
        catalog(folder).describe()


def test_a_prepared_task_that_cannot_be_read_is_an_error_with_its_line(folder: Path) -> None:
    tasks = folder / "data" / "tasks.jsonl"
    first, *_ = tasks.read_text().splitlines()
    tasks.write_text(f'{first}\n{{"id": 3}}\n')
    why = r"tasks\.jsonl, line 2 cannot be read: id: input should be a valid string$"
    with pytest.raises(ServiceError, match=why):
        catalog(folder).task_ids("test")


def test_line_separators_of_unicode_do_not_end_a_prepared_task(folder: Path) -> None:
    tasks = folder / "data" / "tasks.jsonl"
    tasks.write_text(tasks.read_text().replace('"7"', '"7\u2028\u00858"'), encoding="utf-8")
    assert set(catalog(folder).task_ids("test")) >= {task_id for task_id, split in TASKS if split == "test"}
