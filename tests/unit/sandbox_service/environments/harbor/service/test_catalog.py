import shutil
from pathlib import Path
from typing import Any

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import HarborConfig
from sandbox_service.environments.harbor.service.catalog import HarborCatalog, bundled_tasks
from sandbox_service.errors import ServiceError


def pack(folder: Path, **tasks: str) -> Path:
    for name, toml in tasks.items():
        for path, text in {"task.toml": toml, "instruction.md": "Do it.", "tests/test.sh": "true"}.items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_text(text)
    return folder


def catalog(folder: Path, **settings: Any) -> HarborCatalog:
    return HarborCatalog("harbor", HarborConfig(**settings), {"mine": folder})


def refusal(made: HarborCatalog) -> str:
    with pytest.raises(ServiceError) as caught:
        made.describe()
    assert caught.value.code is ErrorCode.TASK_INVALID
    return caught.value.detail


def test_the_bundled_tasks_are_served() -> None:
    made = HarborCatalog("harbor", HarborConfig(), bundled_tasks())
    assert [split.name for split in made.describe().splits] == ["examples"]
    for task_id in made.task_ids("examples"):
        assert made.reference(task_id)


def test_tests_and_solution_are_no_part_of_the_task() -> None:
    made = HarborCatalog("harbor", HarborConfig(), bundled_tasks())
    for task_id in made.task_ids("examples"):
        payload = made.payload(task_id)
        assert "test.sh" in str(payload.grading)
        assert "test.sh" not in str(payload.task)
        assert "solve.sh" not in str(payload.task)


def test_refused_tasks_prevent_the_start_and_are_all_named(tmp_path: Path) -> None:
    folder = pack(tmp_path, a="[environment]\ngpus = 1", b="", c='[environment]\nos = "windows"')
    said = refusal(catalog(folder))
    assert "2 tasks cannot be served" in said
    assert "a: environment.gpus" in said
    assert "c: environment.os" in said


def test_refused_tasks_can_be_left_out(tmp_path: Path) -> None:
    folder = pack(tmp_path, a="[environment]\ngpus = 1", b="")
    assert catalog(folder, skip_unsupported=True).task_ids("mine") == ("b",)


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[environment]\nmemory_mb = 999999", "environment.memory_mb is 999999; the settings allow 4096"),
        ('[environment]\nstorage = "1T"', "environment.storage_mb"),
        ("[environment]\ncpus = 64", "environment.cpus is 64"),
    ],
)
def test_a_task_that_asks_for_more_than_boxes_have_is_refused(tmp_path: Path, toml: str, words: str) -> None:
    assert words in refusal(catalog(pack(tmp_path, a=toml)))


STEPS = '[[steps]]\nname = "a"\n[steps.verifier]\ntimeout_sec = 100.0\n[[steps]]\nname = "b"'


@pytest.mark.parametrize(
    ("toml", "tests_s"),
    [("", 2 * 600), ("[verifier]\ntimeout_sec = 20.0", 2 * 20), (STEPS, 2 * (100 + 600))],
    ids=["default", "own", "steps"],
)
def test_a_task_asks_for_the_time_of_its_tests_twice(tmp_path: Path, toml: str, tests_s: int) -> None:
    folder = pack(tmp_path, a=toml)
    for step in ("a", "b"):
        shutil.copytree(folder / "a" / "tests", folder / "a" / "steps" / step / "tests")
        (folder / "a" / "steps" / step / "instruction.md").write_text("Do it.")
    payload = catalog(folder).payload("a")
    assert payload.evaluate_s == 1.5 * tests_s + 60
    assert payload.task["info"] == {"network": "none", "evaluate_s": payload.evaluate_s}


def test_a_task_whose_tests_may_take_too_long_is_refused(tmp_path: Path) -> None:
    folder = pack(tmp_path, a="[verifier]\ntimeout_sec = 3570.0", b="[verifier]\ntimeout_sec = 3571.0")
    said = refusal(catalog(folder))
    assert said.count("may take") == 1
    assert "b: by verifier.timeout_sec its tests, run twice, may take 7202 s" in said
    assert "environments.max_evaluate_s allows 7200" in said
    assert catalog(folder, skip_unsupported=True).payload("a").evaluate_s == 7200


IMAGE = '[environment]\ndocker_image = "ubuntu:24.04"\nworkdir = "/work"\nbuild_timeout_sec = 90.0'


def test_a_task_that_needs_an_image_names_it_in_its_payload(tmp_path: Path) -> None:
    made = catalog(pack(tmp_path, a=IMAGE, b=""))
    assert made.payload("b").image is None
    image = made.payload("a").image
    assert image is not None
    assert image.dockerfile == "FROM ubuntu:24.04\nWORKDIR /work\n"
    assert (image.task_id, image.context, image.timeout_s) == ("a", None, 90.0)
    assert image.reason == "FROM ubuntu:24.04"


def test_tasks_that_need_images_can_be_excluded(tmp_path: Path) -> None:
    folder = pack(tmp_path, a=IMAGE, b="")
    said = refusal(catalog(folder, images=False))
    assert (
        "it needs an image of its own (FROM ubuntu:24.04), which environments.harbor.images excludes" in said
    )
    assert catalog(folder, images=False, skip_unsupported=True).task_ids("mine") == ("b",)


def test_images_differ_as_soon_as_anything_differs_that_they_are_built_from(tmp_path: Path) -> None:
    digests = []
    for name, dockerfile, content, mode in (
        ("a", "FROM own", "1", 0o644),
        ("same", "FROM own", "1", 0o644),
        ("b", "FROM own\nENV A=1", "1", 0o644),
        ("c", "FROM own", "2", 0o644),
        ("d", "FROM own", "1", 0o755),
    ):
        folder = pack(tmp_path, **{name: ""}) / name / "environment"
        (folder / "src").mkdir(parents=True)
        (folder / "Dockerfile").write_text(dockerfile)
        (folder / "src" / "file").write_text(content)
        (folder / "src" / "file").chmod(mode)
        image = catalog(tmp_path).payload(name).image
        assert image is not None
        digests.append(image.digest)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


def test_boxes_have_the_memory_of_the_most_demanding_task(tmp_path: Path) -> None:
    folder = pack(tmp_path, a="[environment]\nmemory_mb = 700", b='[environment]\nmemory = "1G"')
    assert catalog(folder).spec.memory_mib == 1024


def test_a_folder_without_tasks_is_an_error(tmp_path: Path) -> None:
    assert "no folder with a task.toml" in refusal(catalog(tmp_path))
    assert "cannot be read" in refusal(catalog(tmp_path / "missing"))
