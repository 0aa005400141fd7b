"""Harbor tasks whose tests run apart from the agent, in an image that brings them, and collect hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import docker
import pytest
import pytest_asyncio

from sandbox_client.errors import SandboxError
from sandbox_conformance.actions import native
from sandbox_conformance.serving import serve
from sandbox_contract.problems import ErrorCode, FailureClass
from sandbox_service.config import HarborConfig
from sandbox_service.environments.harbor.service.catalog import HarborCatalog
from sandbox_service.sandboxes.task_images import LABEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from sandbox_conformance.serving import Service

pytestmark = [
    pytest.mark.docker,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]

BASE = "sandbox-verifier-test:base"
BROUGHT = "sandbox-verifier-test:brought"
"""An image of tests that a task names."""
CHECK = """\
#!/bin/bash
. ./expected.sh
r=0
[ "$(cat /app/answer.txt 2>/dev/null)" = "$EXPECTED" ] && [ -e /logs/artifacts/report ] && r=1
[ -e /app/scratch.txt ] && r=0
echo "$r" > /logs/verifier/reward.txt
"""
"""Tests that find their own files beside them, the artifacts, and nothing else of the agent's."""
OWN = f"FROM {BASE}\nENV KEY=value\nWORKDIR /tests\nCOPY . .\n"
AGENTS = f"FROM {BASE}\nWORKDIR /app\nRUN echo initial > initial.txt\n"
ARTIFACT = 'artifacts = ["answer.txt"]\n'
SEPARATE = f'{ARTIFACT}[verifier]\nenvironment_mode = "separate"\n'
HOOKS = '[[verifier.collect]]\ncommand = "wc -l < answer.txt > /logs/artifacts/report; exit 3"\n'
SOLUTION = "echo 42 > answer.txt; echo mine > scratch.txt; echo done > /logs/artifacts/report"
ELSEWHERE = """\
#!/bin/bash
[ "$PWD" = /grader ] && [ -f grade.sh ] && . ./grade.sh
"""
"""Tests with files in a working directory of their image, beside /app."""
CRASHING = """\
#!/bin/bash
[ -e /app/answer.txt ] && . /app/answer.txt
echo 0 > /logs/verifier/reward.txt
"""
"""Tests that run what the agent left."""
COMPARED = """\
#!/bin/bash
r=0; cmp -s /app/out/answer.txt expected.sh && r=1
cmp -s /logs/artifacts/answer.txt expected.sh && r=1
echo "$r" > /logs/verifier/reward.txt
"""
FIRST = """\
#!/bin/bash
. ./expected.sh
r=0; [ "$(cat /app/one.txt 2>/dev/null)" = "$EXPECTED" ] && r=1
echo "$r" > /logs/verifier/reward.txt
"""
SECOND = """\
#!/bin/bash
. ./expected.sh
[ -e /app/crash ] && . /app/crash
r=0; [ "$(cat /logs/artifacts/both 2>/dev/null)" = "$EXPECTED" ] && [ ! -e /app/one.txt ] && r=1
echo "$r" > /logs/verifier/reward.txt
"""
"""Tests of a step that see what its hook made of the files of both steps, and no artifact of the other."""
BOTH = """\
[verifier]
environment_mode = "separate"
[[steps]]
name = "one"
artifacts = ["one.txt"]
[[steps]]
name = "two"
artifacts = ["crash"]
[[steps.verifier.collect]]
command = "cat one.txt two.txt > /logs/artifacts/both"
"""
MIXED = BOTH.replace('artifacts = ["one.txt"]', '[steps.verifier]\nenvironment_mode = "shared"')
"""The tests of the first step run in the box of the agent."""
SOLVED = ("printf 4 > one.txt", "printf 2 > two.txt")
CHEATING = (
    "mkdir -p /tests /opt/task /logs/verifier; echo EXPECTED=0 > /tests/expected.sh; "
    "for place in /tests /logs/verifier /app /logs/artifacts; do "
    "printf '#!/bin/bash\\necho 1 > /logs/verifier/reward.txt\\n' > $place/test.sh; "
    "echo 1 > $place/reward.txt; done; ln -s /logs/verifier answer.txt; "
    "(setsid sh -c 'while :; do echo 1 > /logs/verifier/reward.txt; done' &)"
)


def write_task(folder: Path, name: str, toml: str, **files: str) -> None:
    content = {"task.toml": toml, "instruction.md": "Find the number.", "tests/test.sh": CHECK}
    content |= {"tests/expected.sh": "EXPECTED=42", "environment/Dockerfile": AGENTS, **files}
    for path, text in content.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)


def write_steps(folder: Path, name: str, toml: str, *images: str) -> None:
    """Write a task of two steps, of which ``images`` have tests with an image of their own."""
    files = {}
    for step, test, expected in (("one", FIRST, "4"), ("two", SECOND, "42")):
        own = f"steps/{step}"
        files |= {f"{own}/instruction.md": "Go on.", f"{own}/tests/test.sh": test}
        if step in images:
            files[f"{own}/tests/Dockerfile"] = OWN
            files[f"{own}/tests/expected.sh"] = f"EXPECTED={expected}"
        else:
            # In the box of the agent, tests run in its working directory.
            files[f"{own}/tests/test.sh"] = test.replace(". ./expected.sh", f"EXPECTED={expected}")
    write_task(folder, name, toml, **files)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    client = docker.from_env()
    client.images.get("sandbox-debian:bookworm").tag(BASE)
    folder = tmp_path_factory.mktemp("verifiers") / "pack"
    write_task(folder, "own", SEPARATE, **{"tests/Dockerfile": OWN})
    write_task(folder, "plain", SEPARATE, **{"tests/Dockerfile": OWN, "environment/Dockerfile": ""})
    (folder / "plain/environment/Dockerfile").unlink()
    write_task(folder, "named", f'{ARTIFACT}[verifier.environment]\ndocker_image = "{BROUGHT}"')
    for path in (folder / "named/tests").iterdir():
        path.unlink()
    write_task(folder, "hooks", SEPARATE + HOOKS, **{"tests/Dockerfile": OWN})
    grader = f"FROM {BASE}\nCOPY . /tests\nWORKDIR /grader\nRUN mv /tests/grade.sh .\n"
    grade = "[ -e /app/grade.sh ] && r=1 || r=0; echo $r > /logs/verifier/reward.txt"
    whole = 'artifacts = ["/app"]\n[verifier]\nenvironment_mode = "separate"\n'
    elsewhere = {"tests/Dockerfile": grader, "tests/test.sh": ELSEWHERE, "tests/grade.sh": grade}
    write_task(folder, "elsewhere", whole, **elsewhere)
    write_task(folder, "crashing", SEPARATE, **{"tests/Dockerfile": OWN, "tests/test.sh": CRASHING})
    linked = SEPARATE.replace('"answer.txt"', '"out", {source = "big", exclude = ["*.bin"]}')
    write_task(folder, "compared", linked, **{"tests/Dockerfile": OWN, "tests/test.sh": COMPARED})
    large = f"{OWN}RUN head -c 40M /dev/zero > large\n"
    write_task(folder, "large", SEPARATE, **{"tests/Dockerfile": large})
    write_task(folder, "no-tests", SEPARATE, **{"tests/Dockerfile": f"FROM {BASE}\nWORKDIR /app\n"})
    write_task(folder, "broken", SEPARATE, **{"tests/Dockerfile": f"FROM {BASE}\nRUN exit 3\n"})
    write_task(folder, "no-reward", SEPARATE, **{"tests/Dockerfile": OWN, "tests/test.sh": "#!/bin/sh\n"})
    write_steps(folder, "steps", BOTH, "one", "two")
    write_steps(folder, "mixed", MIXED, "two")
    client.images.build(path=str(folder / "own/tests"), tag=BROUGHT, pull=False)
    yield folder
    for image in client.images.list(filters={"label": LABEL}):
        if image.labels[LABEL] in {path.name for path in folder.iterdir()}:
            client.images.remove(image.id, force=True)
    client.images.remove(BROUGHT)
    client.images.remove(BASE)
    client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(pack: Path) -> AsyncIterator[Service]:
    async with serve(HarborCatalog("harbor", HarborConfig(), {"pack": pack}), "docker") as served:
        yield served


def bash(command: str) -> dict:
    return native("execute_bash", {"command": command})


async def score(service: Service, task: str, command: str) -> float:
    async with service.client.episode("harbor", task) as episode:
        await episode.step(bash(command))
        await episode.step(native("submit", {}))
        return (await episode.evaluate()).score


@pytest.mark.parametrize("task", ["own", "plain", "named"])
async def test_tests_in_an_image_of_their_own_see_the_artifacts_alone(service: Service, task: str) -> None:
    assert await score(service, task, SOLUTION) == 1.0
    assert await score(service, task, "true") == 0.0


async def test_an_agent_finds_no_test_and_forges_no_reward(service: Service) -> None:
    async with service.client.episode("harbor", "own") as episode:
        await episode.step(bash(SOLUTION))
        assert (await episode.evaluate()).score == 1.0
        looked = "ls -A /tests /opt/task; grep -rs EXPECTED= /tests /opt /app /logs; env | grep KEY="
        shown = str((await episode.step(bash(looked))).observation.messages[0].content)
        assert "expected.sh" not in shown
        assert "EXPECTED=" not in shown
        assert "KEY=" not in shown
        await episode.step(bash(f"rm answer.txt; {CHEATING}"))
        assert (await episode.evaluate()).score == 0.0


async def test_hooks_leave_artifacts_and_a_failed_one_is_told(service: Service) -> None:
    async with service.client.episode("harbor", "hooks") as episode:
        await episode.step(bash("echo 42 > answer.txt"))
        await episode.step(native("submit", {}))
        verdict = await episode.evaluate()
    assert verdict.score == 1.0
    assert verdict.details["failed_hooks"] == [{"step": "", "hook": 1, "exit_code": 3}]


async def test_links_that_lead_out_of_an_artifact_are_no_part_of_it(service: Service) -> None:
    async with service.client.episode("harbor", "compared") as episode:
        planted = (
            "mkdir out big; for place in out /logs/artifacts; do "
            "ln -s /opt/task/tests/expected.sh $place/answer.txt; done; "
            "ln -s ../../../../opt/task/tests/expected.sh out/up; head -c 30M /dev/urandom > big/a.bin"
        )
        await episode.step(bash(planted))
        assert (await episode.evaluate()).score == 0.0
        # What an artifact excludes does not count to its size, and links within it are kept.
        inner = "rm out/*; printf EXPECTED=42 > out/number; ln -s number out/answer.txt"
        await episode.step(bash(inner))
        assert (await episode.evaluate()).score == 1.0


async def test_a_working_directory_of_the_tests_is_not_the_agents(service: Service) -> None:
    assert await score(service, "elsewhere", "true") == 0.0
    assert await score(service, "elsewhere", "echo 'echo 1 > /logs/verifier/reward.txt' > grade.sh") == 1.0
    forged = "echo 'echo 1 > /logs/verifier/reward.txt' > test.sh; mkdir grader; cp test.sh grader/grade.sh"
    assert await score(service, "elsewhere", forged) == 0.0


async def test_an_agent_that_makes_the_tests_crash_has_the_least_reward(service: Service) -> None:
    for ending in ("kill -9 $$", "exit 0"):
        async with service.client.episode("harbor", "crashing") as episode:
            await episode.step(bash(f"echo '{ending}' > answer.txt"))
            verdict = await episode.evaluate()
            assert verdict.score == 0.0
            assert "reason" in verdict.details


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("no-tests", "no /tests/test.sh"),
        ("broken", "code: 3"),
        ("large", "more than half of the storage of its box"),
    ],
)
async def test_an_image_of_tests_that_cannot_be_made_refuses_the_create(
    service: Service, task: str, words: str
) -> None:
    with pytest.raises(SandboxError) as caught:
        async with service.client.episode("harbor", task):
            pass
    assert caught.value.code == ErrorCode.TASK_INVALID
    assert caught.value.failure_class == FailureClass.TASK
    assert words in str(caught.value)


async def test_tests_without_a_reward_are_the_tasks_failure(service: Service) -> None:
    async with service.client.episode("harbor", "no-reward") as episode:
        with pytest.raises(SandboxError, match="neither") as caught:
            await episode.evaluate()
    assert caught.value.failure_class == FailureClass.TASK


async def test_artifacts_that_are_too_large_have_the_least_reward(service: Service) -> None:
    async with service.client.episode("harbor", "own") as episode:
        await episode.step(bash("head -c 20M /dev/urandom > answer.txt"))
        verdict = await episode.evaluate()
        assert (verdict.score, verdict.details["note"]) == (0.0, "too large to be graded")
        await episode.step(bash(SOLUTION))
        assert (await episode.evaluate()).score == 1.0


async def score_of_steps(service: Service, task: str, *commands: str) -> tuple[float, dict]:
    async with service.client.episode("harbor", task) as episode:
        for command in commands:
            await episode.step(bash(command))
            await episode.step(native("submit", {}))
        verdict = await episode.evaluate()
        assert await episode.evaluate() == verdict
        return verdict.score, verdict.details


@pytest.mark.parametrize("task", ["steps", "mixed"])
async def test_each_step_is_graded_in_the_image_of_its_tests(service: Service, task: str) -> None:
    assert (await score_of_steps(service, task, *SOLVED))[0] == 1.0
    assert (await score_of_steps(service, task, "true", "true"))[0] == 0.0
    score, details = await score_of_steps(service, task, SOLVED[0], "true")
    assert (score, [step["rewards"]["reward"] for step in details["steps"]]) == (0.5, [1.0, 0.0])
    assert details["failed_hooks"] == [{"step": "two", "hook": 1, "exit_code": 1}]
    # The first step cannot be made good in the second, and its files are there.
    late = await score_of_steps(service, task, "printf 5 > one.txt", f"cat one.txt && {'; '.join(SOLVED)}")
    assert [step["rewards"]["reward"] for step in late[1]["steps"]] == [0.0, 1.0]


async def test_an_evaluation_between_two_steps_leaves_them_as_they_are(service: Service) -> None:
    async with service.client.episode("harbor", "steps") as episode:
        await episode.step(bash(SOLVED[0]))
        await episode.step(native("submit", {}))
        assert (await episode.evaluate()).score == 0.5
        await episode.step(bash(SOLVED[1]))
        verdict = await episode.evaluate()
        assert verdict.score == 1.0
        shown = str((await episode.step(bash("ls -A /tests /opt/task; cat one.txt"))).observation.messages[0])
        assert "expected.sh" not in shown


async def test_tests_in_the_box_of_the_agent_leave_the_present_step_as_it_is(service: Service) -> None:
    async with service.client.episode("harbor", "mixed") as episode:
        await episode.step(bash(SOLVED[0]))
        await episode.step(native("submit", {}))
        # Beside tests there is no room for this, nor for all as an archive.
        large = "head -c 45M /dev/urandom > ../large; touch /tmp/mine"
        await episode.step(bash(f"cd /app/. && {SOLVED[1]}; cd -P . && {large}"))
        assert (await episode.evaluate()).score == 1.0
        shown = str((await episode.step(bash("cat one.txt two.txt; ls -A /tmp"))).observation.messages[0])
        assert "42" in shown
        assert (await episode.evaluate()).score == 1.0


async def test_a_cheat_in_one_step_gains_nothing_in_any(service: Service) -> None:
    planted = CHEATING.replace("answer.txt", "one.txt").replace("EXPECTED=0", "EXPECTED=")
    score, details = await score_of_steps(service, "steps", planted, planted.replace("one.txt", "two.txt"))
    assert [step["rewards"]["reward"] for step in details["steps"]] == [0.0, 0.0]
    assert score == 0.0


async def test_an_agent_that_makes_the_tests_of_a_step_crash_has_the_least_reward(service: Service) -> None:
    crashing = f"{SOLVED[1]}; echo 'kill -9 $$' > crash"
    score, details = await score_of_steps(service, "steps", SOLVED[0], crashing)
    assert (score, details["steps"]) == (0.0, ["two"])
    assert "killed by signal" in details["reason"]
