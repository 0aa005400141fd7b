"""ScienceWorld's tasks: official splits, limits, and references from the recipe."""

import json
from collections import Counter
from pathlib import Path

import pytest

from sandbox_service.config import ScienceworldConfig
from sandbox_service.environments.base import Provisions
from sandbox_service.environments.provisions import find, recipes
from sandbox_service.environments.scienceworld.service.catalog import ScienceworldCatalog

LINES = (
    {"id": "boil-0", "category": "boil", "splits": ["train", "gold"], "reference": ["wait"]},
    {"id": "mend-0", "category": "mend", "splits": ["test"], "max_steps": 160},
)


def catalog(folder: Path, **settings) -> ScienceworldCatalog:
    lines = [json.dumps(line | {"task": {"task": line["category"], "variation": 0}}) for line in LINES]
    (folder / "tasks.jsonl").write_text("\n".join(lines))
    return ScienceworldCatalog(ScienceworldConfig(**settings), Provisions(folder, "d", operator_data=folder))


def test_a_task_that_takes_long_keeps_its_own_limit_unless_the_configured_one_is_higher(tmp_path):
    usual, patient = catalog(tmp_path), catalog(tmp_path, max_steps=200)
    assert [usual.payload(line["id"]).max_steps for line in LINES] == [100, 160]
    assert [patient.payload(line["id"]).max_steps for line in LINES] == [200, 200]


def test_only_games_that_share_a_process_can_be_copied(tmp_path):
    assert catalog(tmp_path).describe().capabilities.fork
    assert not catalog(tmp_path, many_per_worker=False).describe().capabilities.fork


def test_creates_under_way_are_bounded_since_the_engine_loads_one_house_at_a_time(tmp_path):
    assert catalog(tmp_path).spec.creates_per_core == 8


def test_rewards_may_be_taken_back(tmp_path):
    assert catalog(tmp_path).describe().reward_range == (-1.0, 1.0)


def test_the_recipe_has_a_reference_for_each_of_thirty_tasks():
    references = json.loads(
        (recipes()["scienceworld"].source.parent / "data" / "references.json").read_text()
    )
    assert len(references) == 30
    assert all(reference["actions"] for reference in references.values())


def test_official_splits_hold_every_variation_once():
    found = find("scienceworld")
    if found is None:
        pytest.skip("scienceworld is not set up; run sandbox-service envs setup scienceworld")
    made = ScienceworldCatalog(ScienceworldConfig(), found)
    sizes = {split.name: split.size for split in made.describe().splits}
    assert sizes == {"train": 3592, "dev": 1796, "test": 1819, "gold": 30}
    ids = [task_id for name in ("train", "dev", "test") for task_id in made.task_ids(name)]
    assert len(set(ids)) == len(ids) == 7207
    categories = Counter(made.payload(task_id).task["category"] for task_id in made.task_ids("gold"))
    assert set(categories.values()) == {1}
    assert len(categories) == 30
