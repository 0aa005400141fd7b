import shutil
from pathlib import Path
from typing import Any

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import HarborConfig
from sandbox_service.environments.base import BoxResources
from sandbox_service.environments.harbor.service.catalog import HarborCatalog, bundled_tasks, operator_catalog
from sandbox_service.errors import ServiceError

STEPS = '[[steps]]\nname = "a"\n[steps.verifier]\ntimeout_sec = 100.0\n[[steps]]\nname = "b"'


def pack(folder: Path, **tasks: str) -> Path:
    for name, toml in tasks.items():
        for path, text in {"task.toml": toml, "instruction.md": "Do it.", "tests/test.sh": "true"}.items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_text(text)
        for step in ("a", "b") if STEPS in toml else ():
            shutil.copytree(folder / name / "tests", folder / name / "steps" / step / "tests")
            (folder / name / "steps" / step / "instruction.md").write_text("Do it.")
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


def split_names(*folders: Path) -> list[str]:
    made = operator_catalog(HarborConfig(tasks=folders), 14400)
    return [split.name for split in made.describe().splits]


def test_splits_have_the_names_of_their_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pack(tmp_path / "tasks", t1=""))
    assert (
        split_names(Path.cwd()) == split_names(Path()) == split_names(Path("t1/..")) == ["examples", "tasks"]
    )


@pytest.mark.parametrize("names", [["a/tasks", "b/tasks"], ["examples"]])
def test_two_folders_of_one_name_are_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(
        ServiceError, match=r"tasks: two folders are named '(tasks|examples)': .*; rename one"
    ):
        split_names(*(pack(tmp_path / name, t1="") for name in names))


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


def test_a_task_whose_files_cannot_be_read_keeps_no_other_from_being_served(tmp_path: Path) -> None:
    folder = pack(tmp_path, a="", b=f'[[steps]]\nname = "{"x" * 300}"')
    (folder / "b/steps").mkdir()
    assert "b: it cannot be read: [Errno 36] File name too long" in refusal(catalog(folder))
    assert catalog(folder, skip_unsupported=True).task_ids("mine") == ("a",)


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


@pytest.mark.parametrize(
    ("toml", "evaluate_s"),
    [
        ("", 2 * 600 * 1.5 + 120),
        ("[verifier]\ntimeout_sec = 20.0", 2 * 20 * 1.5 + 120),
        ("[verifier]\ntimeout_sec = 3600.0", 2 * 3600 * 1.5 + 120),
        (STEPS, 2 * (100 + 600) * 1.5 + 2 * 120),
    ],
    ids=["default", "short", "long", "steps"],
)
def test_a_task_asks_for_the_time_of_its_tests_twice(tmp_path: Path, toml: str, evaluate_s: float) -> None:
    folder = pack(tmp_path, a=toml)
    payload = catalog(folder).payload("a")
    assert payload.evaluate_s == evaluate_s
    assert payload.task["info"] == {"network": "none", "evaluate_s": payload.evaluate_s}


def test_a_task_whose_tests_may_take_too_long_is_refused(tmp_path: Path) -> None:
    folder = pack(tmp_path, a="[verifier]\ntimeout_sec = 7140.0", b="[verifier]\ntimeout_sec = 7141.0")
    said = refusal(catalog(folder))
    assert said.count("may take") == 1
    assert "b: by verifier.timeout_sec its tests, run twice, may take 14402 s" in said
    assert "environments.max_evaluate_s allows 14400" in said
    assert catalog(folder, skip_unsupported=True).payload("a").evaluate_s == 14400


def test_a_solution_that_is_too_large_leaves_the_task_without_a_reference(tmp_path: Path) -> None:
    made = catalog(pack(tmp_path, a=""))
    (tmp_path / "a/solution").mkdir()
    with (tmp_path / "a/solution/large").open("wb") as file:
        file.truncate(17 * 1024**2)
    with pytest.raises(ServiceError, match="a: solution has more than") as caught:
        made.reference("a")
    assert caught.value.code is ErrorCode.TASK_INVALID


def test_artifacts_lie_below_the_tasks_folders(tmp_path: Path) -> None:
    declared = '[[artifacts]]\nsource = "src"\ndestination = "results/src"\nexclude = ["*.pyc"]'
    folder = pack(tmp_path, a=declared, b='artifacts = ["/logs/artifacts/"]')
    found = [catalog(folder).payload(name).grading["steps"][0]["artifacts"] for name in "ab"]
    assert found[0] == [{"source": "app/src", "exclude": ["*.pyc"]}]
    assert found[1] == [{"source": "logs/artifacts/", "exclude": []}]


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


def test_common_boxes_suffice_for_every_task_without_an_image(tmp_path: Path) -> None:
    folder = pack(
        tmp_path,
        a="[environment]\nmemory_mb = 700\ncpus = 2",
        b='[environment]\nmemory = "1G"\nstorage_mb = 300',
        c=f"{IMAGE}\nmemory_mb = 4096\ncpus = 4",
    )
    made = catalog(folder)
    assert made.spec.resources == BoxResources(memory_mib=1024, cpus=2, storage_mib=300)
    image = made.payload("c").image
    assert image is not None
    assert image.resources == BoxResources(memory_mib=4096, cpus=4)


def test_a_box_with_more_memory_holds_larger_working_directories(tmp_path: Path) -> None:
    big = "[environment]\nmemory_mb = 2048"
    made = catalog(pack(tmp_path, a="", b=big, c=f"{big}\n{STEPS}"))
    tasks = [made.payload(name).task for name in "abc"]
    mib = 1024**2
    assert [task["archive_bytes"] for task in tasks] == [48 * mib, 256 * mib, 256 * mib]
    assert [task["all_archives_bytes"] for task in tasks] == [96 * mib, 256 * mib, 256 * mib]


def test_a_folder_without_tasks_is_an_error(tmp_path: Path) -> None:
    assert "no folder with a task.toml" in refusal(catalog(tmp_path))
    assert "cannot be read" in refusal(catalog(tmp_path / "missing"))
