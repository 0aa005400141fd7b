from pathlib import Path

import pytest

from sandbox_service.config import HarborConfig
from sandbox_service.environments.base import BoxResources, DuePart, TaskImage
from sandbox_service.environments.harbor.service.catalog import HarborCatalog
from sandbox_service.environments.harbor.service.images import verifier_image_of
from sandbox_service.environments.harbor.service.payloads import grading_body
from sandbox_service.environments.harbor.service.task_toml import TaskRefused
from sandbox_service.environments.harbor.service.tasks import load_task

SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
STEPS = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
DOCKERFILE = "FROM python:3.12-slim\nCOPY . /tests\n"


def write(folder: Path, toml: str, **files: str) -> Path:
    content = {"task.toml": toml, "instruction.md": "Do it.", "tests/test.sh": "true"}
    for name in ("one", "two") if STEPS in toml else ():
        content[f"steps/{name}/instruction.md"] = "Do it."
    for path, text in {**content, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def images(folder: Path) -> list[TaskImage | None]:
    task = load_task(folder)
    return [verifier_image_of(task, step) for step in task.steps]


def image(folder: Path) -> TaskImage:
    (found,) = images(folder)
    assert found is not None
    return found


def refusal(folder: Path) -> str:
    with pytest.raises(TaskRefused) as caught:
        load_task(folder)
    return str(caught.value)


@pytest.mark.parametrize("toml", ["", SEPARATE, "[verifier.environment]\nmemory_mb = 64"])
def test_tests_without_an_image_run_in_the_environment_of_the_agent(tmp_path: Path, toml: str) -> None:
    assert images(write(tmp_path / "t", toml)) == [None]


def test_a_dockerfile_beside_separate_tests_is_their_image(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", SEPARATE, **{"tests/Dockerfile": DOCKERFILE})
    found = image(folder)
    assert (found.dockerfile, found.context, found.holds_tests) == (DOCKERFILE, folder / "tests", True)
    (folder / "tests/test.sh").write_text("false")
    assert image(folder).digest != found.digest


def test_a_dockerfile_beside_shared_tests_is_one_of_their_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", "", **{"tests/Dockerfile": DOCKERFILE})
    assert images(folder) == [None]
    task = load_task(folder)
    assert set(task.tests(task.steps[0])) == {"Dockerfile", "test.sh"}


def test_an_image_by_its_name_comes_before_a_dockerfile_and_needs_no_tests_in_the_folder(
    tmp_path: Path,
) -> None:
    own = 'docker_image = "marks:1"\nmemory_mb = 64\nworkdir = "/w"'
    toml = f"[environment]\nmemory_mb = 900\nstorage_mb = 200\n[verifier.environment]\n{own}"
    folder = write(tmp_path / "t", toml, **{"tests/Dockerfile": DOCKERFILE})
    (folder / "tests/test.sh").unlink()
    found = image(folder)
    assert (found.dockerfile, found.context, found.workdir) == ("FROM marks:1\n", None, "/w")
    # Artifacts find the room there that they had in the box of the agent.
    assert found.resources == BoxResources(memory_mib=64, storage_mib=200)


def test_what_a_verifier_without_an_image_asks_for_is_in_the_tasks_box(
    tmp_path: Path,
) -> None:
    toml = "[environment]\nmemory_mb = 900\ncpus = 1\n[verifier.environment]\nmemory_mb = 64\ncpus = 2"
    task = load_task(write(tmp_path / "t", toml + '\nenv = {A = "b"}'))
    assert task.resources == BoxResources(memory_mib=900, cpus=2)
    assert grading_body(task, (0.0, 1.0))["steps"][0]["env"] == {"A": "b"}


def test_hooks_of_task_and_step_run_in_this_order_and_the_mode_is_inherited(tmp_path: Path) -> None:
    hook = '[[verifier.collect]]\ncommand = "task"\n'
    own = STEPS + '[steps.verifier]\ntimeout_sec = 5.0\n[[steps.verifier.collect]]\ncommand = "step"\n'
    one, two = load_task(write(tmp_path / "t", SEPARATE + hook + own)).steps
    assert [[each.command for each in step.collect] for step in (one, two)] == [["task"], ["task", "step"]]
    assert (one.place.is_separate, two.place.is_separate) == (True, True)


@pytest.mark.parametrize(
    ("toml", "files", "found"),
    [
        (SEPARATE, ["tests"], ["tests", "tests"]),
        (SEPARATE, ["steps/two/tests"], [None, "steps/two/tests"]),
        (SEPARATE, ["tests", "steps/two/tests"], ["tests", "steps/two/tests"]),
        ('[verifier.environment]\ndocker_image = "marks:1"\n', [], ["FROM marks:1", "FROM marks:1"]),
        (
            '[verifier.environment]\ndocker_image = "marks:1"\n',
            ["tests", "steps/one/tests"],
            ["steps/one/tests", "FROM marks:1"],
        ),
    ],
    ids=["task", "step", "both", "named", "step-before-name"],
)
def test_the_image_of_a_step_is_its_own_or_the_tasks(
    tmp_path: Path, toml: str, files: list[str], found: list[str | None]
) -> None:
    folder = write(tmp_path / "t", toml + STEPS, **{f"{file}/Dockerfile": DOCKERFILE for file in files})
    (folder / "tests/test.sh").touch()
    made = [None if each is None else each.context or each.dockerfile.strip() for each in images(folder)]
    expected = [folder / each if each and not each.startswith("FROM") else each for each in found]
    assert made == expected


def test_a_step_chooses_the_place_and_the_environment_of_its_tests(tmp_path: Path) -> None:
    own = '[steps.verifier]\nenvironment_mode = "{}"\n'
    shared = '[[steps]]\nname = "one"\n' + own.format("shared")
    apart = '[[steps]]\nname = "two"\n' + own.format("separate")
    sized = "[steps.verifier.environment]\nmemory_mb = 700\n"
    toml = '[verifier.environment]\nmemory_mb = 64\nenv = {A = "b"}\n' + shared + apart + sized
    files = {f"steps/{name}/instruction.md": "Do it." for name in ("one", "two")}
    folder = write(tmp_path / "t", toml, **files)
    task = load_task(folder)
    assert [step.place.is_separate for step in task.steps] == [False, True]
    # Both run in the box of the agent, which has what the second asks for.
    assert images(folder) == [None, None]
    assert task.resources == BoxResources(memory_mib=700)
    (folder / "tests/Dockerfile").write_text(DOCKERFILE)
    one, two = images(folder)
    assert one is None
    assert two is not None
    assert two.resources.memory_mib == 700


@pytest.mark.parametrize(
    ("toml", "file", "words"),
    [
        (SEPARATE + STEPS, "steps/two/tests/docker-compose.yaml", "a verifier has one container"),
        (
            STEPS + '[steps.verifier.environment]\nworkdir = "/w"',
            "",
            "verifier.environment.workdir differs",
        ),
        (SEPARATE, "tests/docker-compose.yaml", "a verifier has one container"),
        ('[verifier.environment]\nworkdir = "/w"', "", "verifier.environment.workdir differs"),
    ],
)
def test_verifiers_that_boxes_cannot_have_are_refused_by_name(
    tmp_path: Path, toml: str, file: str, words: str
) -> None:
    assert words in refusal(write(tmp_path / "t", toml, **({file: DOCKERFILE} if file else {})))


def test_the_verifiers_box_gets_variables_of_its_own_and_the_agents_box_knows_the_artifacts(
    tmp_path: Path,
) -> None:
    toml = (
        'artifacts = ["answer.txt", "/logs/agent/notes"]\n'
        '[environment]\nenv = {A = "agent"}\n[verifier.environment]\nenv = {B = "tests"}\n'
        '[[verifier.collect]]\ncommand = "true"\n'
    )
    write(tmp_path / "t", toml, **{"tests/Dockerfile": DOCKERFILE})
    payload = HarborCatalog("harbor", HarborConfig(), {"mine": tmp_path}).payload("t")
    (part,) = payload.parts
    (step,) = payload.task["steps"]
    assert part.verifier is not None
    sources = [each["source"] for each in step["artifacts"]]
    assert sources == ["logs/artifacts", "app/answer.txt", "logs/agent/notes"]
    assert (payload.task["env"], part.verifier.task["env"]) == ({"A": "agent"}, {"B": "tests"})
    assert step["collect"] == [{"command": "true", "timeout_s": 60.0}]
    # The tests are in the image, and nowhere else.
    assert part.grading["steps"][0]["files"] == {}


def test_a_box_that_grades_a_step_is_sent_what_belongs_to_it_alone(tmp_path: Path) -> None:
    second = 'artifacts = ["two.txt"]\n[steps.verifier]\nenv = {B = "two"}\nenvironment_mode = "separate"\n'
    hook = '[[steps.verifier.collect]]\ncommand = "true"\ntimeout_sec = 5.0\n'
    toml = 'artifacts = ["all.txt"]\n' + STEPS + second + hook
    write(tmp_path / "t", toml, **{"steps/two/tests/Dockerfile": DOCKERFILE})
    payload = HarborCatalog("harbor", HarborConfig(), {"mine": tmp_path}).payload("t")
    one, two = payload.parts
    assert one.verifier is None
    assert two.verifier is not None
    # The first is graded in the agent's box, on a copy of all that the agent has left there.
    artifacts = [step["artifacts"] for step in payload.task["steps"]]
    assert artifacts[0] is None
    assert [each["source"] for each in artifacts[1]] == ["logs/artifacts", "app/all.txt", "app/two.txt"]
    assert [set(step.get("files", ())) for step in one.grading["steps"]] == [{"test.sh"}, set()]
    (graded,) = two.grading["steps"]
    assert (graded["name"], graded["files"], graded["env"]) == ("two", {}, {"B": "two"})
    assert [step["name"] for step in two.verifier.task["steps"]] == ["two"]
    assert payload.combine is not None
    assert payload.combine({}, 2, []) == DuePart(0, {"index": 0, "untouched": False})
    # Tests twice, and another box with a hook.
    own_s = 2 * (1.5 * 600 + 60)
    assert (one.evaluate_s, two.evaluate_s) == (own_s, own_s + 120 + 5)
    assert payload.evaluate_s == one.evaluate_s + two.evaluate_s


def test_an_image_of_a_verifier_is_excluded_like_one_of_a_task(tmp_path: Path) -> None:
    write(tmp_path / "image", SEPARATE, **{"tests/Dockerfile": DOCKERFILE})
    write(tmp_path / "plain", SEPARATE)
    made = HarborCatalog("harbor", HarborConfig(images=False, skip_unsupported=True), {"mine": tmp_path})
    assert made.task_ids("mine") == ("plain",)


def test_a_verifier_that_asks_for_more_than_boxes_have_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "large", "[verifier.environment]\nmemory_mb = 999999")
    write(tmp_path / "large-step", STEPS + "[steps.verifier.environment]\nmemory_mb = 999999")
    write(tmp_path / "plain", "")
    made = HarborCatalog("harbor", HarborConfig(skip_unsupported=True), {"mine": tmp_path})
    assert made.task_ids("mine") == ("plain",)
