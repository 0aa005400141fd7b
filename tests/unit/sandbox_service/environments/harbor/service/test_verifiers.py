from pathlib import Path

import pytest

from sandbox_service.config import HarborConfig
from sandbox_service.environments.base import BoxResources, TaskImage
from sandbox_service.environments.harbor.service.catalog import HarborCatalog
from sandbox_service.environments.harbor.service.images import verifier_image_of
from sandbox_service.environments.harbor.service.payloads import grading_body
from sandbox_service.environments.harbor.service.task_toml import TaskRefused
from sandbox_service.environments.harbor.service.tasks import load_task

SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
ONE_STEP = "supported for tasks with one step only"
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


def image(folder: Path) -> TaskImage:
    found = verifier_image_of(load_task(folder))
    assert found is not None
    return found


def refusal(folder: Path) -> str:
    with pytest.raises(TaskRefused) as caught:
        load_task(folder)
    return str(caught.value)


@pytest.mark.parametrize("toml", ["", SEPARATE, "[verifier.environment]\nmemory_mb = 64"])
def test_tests_without_an_image_run_in_the_environment_of_the_agent(tmp_path: Path, toml: str) -> None:
    assert verifier_image_of(load_task(write(tmp_path / "t", toml))) is None


def test_a_dockerfile_beside_separate_tests_is_their_image(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", SEPARATE, **{"tests/Dockerfile": DOCKERFILE})
    found = image(folder)
    assert (found.dockerfile, found.context, found.holds_tests) == (DOCKERFILE, folder / "tests", True)
    (folder / "tests/test.sh").write_text("false")
    assert image(folder).digest != found.digest


def test_a_dockerfile_beside_shared_tests_is_one_of_their_files(tmp_path: Path) -> None:
    task = load_task(write(tmp_path / "t", "", **{"tests/Dockerfile": DOCKERFILE}))
    assert verifier_image_of(task) is None
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
    assert (one.is_separate, two.is_separate) == (True, True)


@pytest.mark.parametrize(
    ("toml", "file", "words"),
    [
        (SEPARATE + STEPS, "tests/Dockerfile", ONE_STEP),
        (SEPARATE + STEPS, "steps/two/tests/Dockerfile", ONE_STEP),
        (
            '[verifier.environment]\ndocker_image = "x"\n' + STEPS,
            "",
            ONE_STEP,
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
    assert payload.verifier is not None
    sources = [each["source"] for each in payload.task["artifacts"]]
    assert sources == ["logs/artifacts", "app/answer.txt", "logs/agent/notes"]
    assert (payload.task["env"], payload.verifier.task["env"]) == ({"A": "agent"}, {"B": "tests"})
    assert payload.task["steps"][0]["collect"] == [{"command": "true", "timeout_s": 60.0}]
    # The tests are in the image, and nowhere else.
    assert payload.grading["steps"][0]["files"] == {}


def test_an_image_of_a_verifier_is_excluded_like_one_of_a_task(tmp_path: Path) -> None:
    write(tmp_path / "image", SEPARATE, **{"tests/Dockerfile": DOCKERFILE})
    write(tmp_path / "plain", SEPARATE)
    made = HarborCatalog("harbor", HarborConfig(images=False, skip_unsupported=True), {"mine": tmp_path})
    assert made.task_ids("mine") == ("plain",)


def test_a_verifier_that_asks_for_more_than_boxes_have_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "large", "[verifier.environment]\nmemory_mb = 999999")
    write(tmp_path / "plain", "")
    made = HarborCatalog("harbor", HarborConfig(skip_unsupported=True), {"mine": tmp_path})
    assert made.task_ids("mine") == ("plain",)
