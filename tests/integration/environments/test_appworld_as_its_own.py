"""Cells over the pipe beside the same cells in AppWorld's own notebook: the same words come out."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.appworld_box import AppWorldEpisode, appworld_box, appworld_catalog
from tests.harness.runner_box import INTERPRETER, uid_drop_missing
from tests.harness.sampling import where_environment_changed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_service.environments.appworld.service.catalog import AppworldCatalog

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow, where_environment_changed("appworld")]
TASK = "own01_1"
CELLS = (Path(__file__).with_name("appworld_cells.txt")).read_text(encoding="utf-8").split("\n----\n")
"""Each a cell of one notebook, in order."""
_THEIRS = """
import json, sys
sys.stdout, answers = sys.stderr, sys.stdout
from appworld.environment import AppWorld
job = json.load(sys.stdin)
said, graded = [], []
for task, cells in job:
    world = AppWorld(task, experiment_name="theirs", timeout_seconds=30)
    said.append([world.execute(cell) for cell in cells])
    completed = world.task_completed()
    result = world.evaluate().to_dict()
    graded.append([completed, len(result["passes"]), len(result["failures"]), result["success"]])
    world.close()
json.dump([said, graded], answers)
"""


def theirs(
    catalog: AppworldCatalog, job: list[tuple[str, list[str]]]
) -> tuple[list[list[str]], list[list[object]]]:
    """Return AppWorld's own answers to cells, and its grading of them."""
    assert catalog.spec.provisions is not None
    with tempfile.TemporaryDirectory(prefix="appworld-") as root:
        (Path(root) / "data").symlink_to(catalog.spec.provisions.data)
        packages = str(catalog.spec.provisions.packages)
        settings = {"PYTHONPATH": packages, "APPWORLD_ROOT": root, "HOME": root, "PATH": os.environ["PATH"]}
        done = subprocess.run(
            [INTERPRETER, "-B", "-W", "ignore", "-c", _THEIRS],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            env=settings,
            cwd=root,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    said, graded = json.loads(done.stdout)
    return said, graded


@pytest.fixture(scope="module")
def catalog() -> AppworldCatalog:
    return appworld_catalog()


@pytest.fixture(scope="module")
def both(catalog: AppworldCatalog) -> Iterator[list[tuple[str, str, str]]]:
    """Each cell, AppWorld's answer and ours."""
    (expected,), _ = theirs(catalog, [(TASK, CELLS)])
    with appworld_box(catalog, drop=uid_drop_missing() is None) as box:
        episode = AppWorldEpisode.create(box, catalog, TASK)
        yield [(cell, words, episode.run(cell)) for cell, words in zip(CELLS, expected, strict=True)]


@pytest.mark.parametrize("number", range(len(CELLS)), ids=lambda number: CELLS[number].split("\n")[0][:40])
def test_a_cell_is_answered_in_the_same_words(both: list[tuple[str, str, str]], number: int) -> None:
    cell, expected, ours = both[number]
    assert ours == expected, cell


@pytest.mark.parametrize("api", ["credit_to_card", "debit_from_card"])
@pytest.mark.parametrize("call", ["apis.admin.{}(amount=5.0)", "requester.request('admin', '{}', amount=5)"])
def test_the_banks_private_apis_are_no_agents(catalog: AppworldCatalog, api: str, call: str) -> None:
    with appworld_box(catalog, drop=uid_drop_missing() is None) as box:
        answer = AppWorldEpisode.create(box, catalog, TASK).run(call.format(api))
    assert f"No API named '{api}' found in the admin app." in answer


def test_references_and_idling_are_graded_alike(catalog: AppworldCatalog) -> None:
    tasks = [task_id for task_id in catalog.task_ids("own") if task_id.endswith("_1")]
    cells = {
        task_id: [
            str(message["content"]).removeprefix("```python\n").removesuffix("\n```")
            for message in catalog.reference(task_id)
        ]
        for task_id in tasks
    }
    job = [(task_id, cells[task_id][:end]) for task_id in tasks for end in (0, len(cells[task_id]))]
    said, graded = theirs(catalog, job)
    with appworld_box(catalog, drop=uid_drop_missing() is None) as box:
        for (task_id, played), words, grades in zip(job, said, graded, strict=True):
            episode = AppWorldEpisode.create(box, catalog, task_id)
            assert [episode.run(cell) for cell in played] == words, task_id
            verdict = episode.verdict()
            details = verdict["details"]
            ours = [details["completed"], details["passes"], details["failures"], verdict["success"]]
            assert ours == grades, task_id
            episode.release()
