"""Harbor tasks in real boxes: what their tests may do wrong, and what an agent may try against them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from sandbox_client.errors import SandboxError
from sandbox_conformance.actions import native, say
from sandbox_conformance.serving import serve
from sandbox_contract.problems import ErrorCode, FailureClass
from sandbox_service.config import DeadlineConfig, HarborConfig
from sandbox_service.environments.harbor.service.catalog import HarborCatalog
from sandbox_service.sandboxes.base import SandboxLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox_conformance.serving import Service

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

ONE = "echo 1 > /logs/verifier/reward.txt"
CHECK = """\
if [ "$(cat /app/answer.txt 2>/dev/null)" = 42 ]; then r=1; else r=0; fi
echo "$r" > /logs/verifier/reward.txt
"""
SLOW = f"if [ -e /app/answer.txt ]; then sleep 4; fi; {CHECK}"
"""Tests that take a while on a solution, and hardly any time on untouched files."""
SEPARATE = """\
r=0
found=$(ls /app /app/src | xargs)
[ "$found" = "/app: src /app/src: kept.txt new.txt" ] && [ -e /logs/artifacts/report ] && r=1
echo "$r" > /logs/verifier/reward.txt
"""
CRASHED = "cat /app/needed.txt /app/added.txt && [ ! -e /app/crash ] && echo 0 > /logs/verifier/reward.txt"
"""Tests that the agent can keep from a reward, and that need all of the task's files for one."""
COMPARED = """\
r=0
for name in answer expected; do cmp -s /app/$name.txt /tests/expected.txt && r=1; done
echo "$r" > /logs/verifier/reward.txt
"""
COLLECTED = """\
if [ "$(cat /logs/artifacts/size 2>/dev/null)" = 3 ]; then r=1; else r=0; fi
echo "$r" > /logs/verifier/reward.txt
"""
"""Tests that need what a hook has left."""
HOOKS = """\
[[verifier.collect]]
command = "wc -c < answer.txt > /logs/artifacts/size"
[[verifier.collect]]
command = "cat waiting; exit 3"
timeout_sec = 1.0
"""
FAULTY = {
    "no-reward": ("true", "neither /logs/verifier/reward.json nor reward.txt"),
    "nan": ("echo nan > /logs/verifier/reward.txt", "reward.txt is nan"),
    "too-great": ("echo 7 > /logs/verifier/reward.txt", "the reward is 7, outside of 0 to 1"),
    "negative": ("echo '{\"reward\": -3}' > /logs/verifier/reward.json", "the reward is -3, outside"),
    "empty": ("touch /logs/verifier/reward.txt", "reward.txt holds no number"),
    "words": ("echo well > /logs/verifier/reward.txt", "'well'"),
    "two-keys": ('echo \'{"a": 1, "b": 0}\' > /logs/verifier/reward.json', "none is named 'reward'"),
    "a-pipe": ("mkfifo /logs/verifier/reward.txt", "neither"),
    "a-link": ("echo 1 > /tmp/r; ln -s /tmp/r /logs/verifier/reward.txt", "neither"),
    "killed": (f"{ONE}; kill -9 $$", "killed by signal"),
    "too-late": ("(setsid bash -c 'sleep 0.2; echo 1 > /logs/verifier/reward.txt' &)", "neither"),
    "hanging": (f"{ONE}; sleep 600", "did not end within 2 s"),
}
"""Tests that give no reward, and words of the error."""

PLANTED = """\
mkdir -p /tests /logs/verifier ~/.local/bin ~/.local/lib/python3.11/site-packages
printf '#!/bin/bash\\necho 1 > /logs/verifier/reward.txt\\n' > /tests/test.sh; chmod +x /tests/test.sh
echo 1 > /logs/verifier/reward.txt; echo '{"reward": 1}' > /logs/verifier/reward.json
echo 'echo 1 > /logs/verifier/reward.txt; exit' > ~/.bashrc; cp ~/.bashrc ~/.profile
printf '#!/bin/bash\\necho 42\\n' > ~/.local/bin/cat; chmod +x ~/.local/bin/cat; cp ~/.local/bin/cat /app/cat
export PATH=/app:$PATH BASH_ENV=~/.bashrc
forge='echo 1 > /logs/verifier/reward.txt; echo 42 > /app/answer.txt'
(setsid bash -c "while :; do $forge; sleep 0.01; done" &) &
sleep 0.2; rm -f /app/answer.txt
"""
"""Things that an agent may leave behind to be given a reward without the answer."""


def write_task(folder: Path, name: str, script: str, toml: str = "") -> None:
    files = {"task.toml": toml, "instruction.md": "Write 42.", "tests/test.sh": f"#!/bin/bash\n{script}\n"}
    for path, text in files.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=["process", pytest.param("docker", marks=pytest.mark.docker)],
)
async def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Service]:
    folder = tmp_path_factory.mktemp("harbor") / "pack"
    for name, (script, _) in FAULTY.items():
        write_task(folder, name, script, "[verifier]\ntimeout_sec = 2.0" if name == "hanging" else "")
    write_task(folder, "answer", CHECK)
    write_task(folder, "compared", COMPARED)
    (folder / "compared/tests/expected.txt").write_text("42\n")
    write_task(folder, "slow-agent", CHECK, "[agent]\ntimeout_sec = 0.5")
    write_task(folder, "slow-tests", SLOW, "[verifier]\ntimeout_sec = 30.0")
    separate = '[verifier]\nenvironment_mode = "separate"'
    write_task(
        folder, "separate", SEPARATE, f'artifacts = [{{source = "src", exclude = ["*.log"]}}]\n{separate}'
    )
    for name in ("kept.txt", "removed.txt"):
        (folder / "separate/environment/src").mkdir(parents=True, exist_ok=True)
        (folder / "separate/environment/src" / name).write_text(name)
    steps = 'artifacts = ["/app"]\n[[steps]]\nname = "one"\n[steps.verifier]\nenvironment_mode = "separate"'
    write_task(folder, "separate-steps", CRASHED, steps)
    (folder / "separate-steps/environment").mkdir()
    (folder / "separate-steps/environment/needed.txt").write_text("42")
    (folder / "separate-steps/steps/one/workdir").mkdir(parents=True)
    (folder / "separate-steps/steps/one/workdir/setup.sh").write_text("cp needed.txt added.txt")
    (folder / "separate-steps/instruction.md").rename(folder / "separate-steps/steps/one/instruction.md")
    write_task(folder, "collected", COLLECTED, HOOKS)
    write_task(folder, "roomy", CHECK, "[environment]\nmemory_mb = 1536\nstorage_mb = 600")
    catalog = HarborCatalog("harbor", HarborConfig(), {"pack": folder})
    async with serve(catalog, request.param, DeadlineConfig(evaluate_s=2)) as served:
        yield served


async def test_tests_without_a_usable_reward_are_the_tasks_failure_and_never_0(service: Service) -> None:
    for name, (_, words) in FAULTY.items():
        async with service.client.episode("harbor", name) as episode:
            with pytest.raises(SandboxError) as caught:
                await episode.evaluate()
            assert caught.value.code == ErrorCode.GRADER_FAILED, name
            assert caught.value.failure_class == FailureClass.TASK
            assert words in str(caught.value), name
    # No other instance is disturbed by them.
    async with service.client.episode("harbor", "answer") as episode:
        await episode.step(native("execute_bash", {"command": "echo 42 > answer.txt"}))
        assert (await episode.evaluate()).score == 1.0


async def test_a_right_solution_has_the_time_that_the_task_gives_its_tests(service: Service) -> None:
    async with service.client.episode("harbor", "slow-tests") as episode:
        assert episode.info["evaluate_s"] == 1.5 * 2 * 30 + 120
        await episode.step(native("execute_bash", {"command": "echo 42 > answer.txt"}))
        assert (await episode.evaluate()).score == 1.0


async def test_a_box_has_the_storage_that_its_task_asks_for_and_all_is_graded(service: Service) -> None:
    assert SandboxLimits().workspace_mib < 80
    # Their sum, packed, is what is put aside for the tests.
    beside = "head -c 30M /dev/urandom > /tmp/beside; "
    async with service.client.episode("harbor", "roomy") as episode:
        command = "head -c 80M /dev/urandom > big && echo 42 > answer.txt; ls -s big /tmp/beside"
        written = await episode.step(native("execute_bash", {"command": beside + command}))
        assert "big" in str(written.observation.messages[0].content)
        assert (await episode.evaluate()).score == 1.0
        kept = await episode.step(native("execute_bash", {"command": "ls -s big /tmp/beside"}))
        assert kept.observation.messages[0].content.count("\n") == 1, kept
        await episode.step(native("submit", {}))
        assert (await episode.evaluate()).score == 1.0


async def test_hooks_leave_what_the_tests_need_and_end_nothing_when_they_fail(service: Service) -> None:
    async with service.client.episode("harbor", "collected") as episode:
        assert (await episode.evaluate()).score == 0.0
        await episode.step(native("execute_bash", {"command": "echo 42 > answer.txt; touch waiting"}))
        verdict = await episode.evaluate()
        assert verdict.score == 1.0
        assert verdict.details["failed_hooks"] == [{"step": "", "hook": 2, "exit_code": 3}]
        # A hook that hangs on what the agent left costs its own time.
        await episode.step(native("execute_bash", {"command": "rm waiting; mkfifo waiting"}))
        await episode.step(native("submit", {}))
        verdict = await episode.evaluate()
        assert verdict.score == 1.0
        assert [each["hook"] for each in verdict.details["failed_hooks"]] == [2]


async def test_an_attack_in_steps_with_a_separate_verifier_has_the_least_reward(service: Service) -> None:
    async with service.client.episode("harbor", "separate-steps") as episode:
        await episode.step(native("execute_bash", {"command": "touch crash"}))
        await episode.step(native("submit", {}))
        verdict = await episode.evaluate()
        assert verdict.score == 0.0
        assert "neither" in str(verdict.details["reason"])


async def test_a_separate_verifier_has_the_artifacts_in_the_place_of_initial_files(service: Service) -> None:
    async with service.client.episode("harbor", "separate") as episode:
        assert (await episode.evaluate()).score == 0.0
        command = (
            "rm src/removed.txt; touch src/new.txt src/x.log other /logs/artifacts/report; mkfifo src/pipe"
        )
        await episode.step(native("execute_bash", {"command": command}))
        assert (await episode.evaluate()).score == 1.0


async def test_what_an_agent_plants_does_not_reach_the_tests(service: Service) -> None:
    async with service.client.episode("harbor", "answer") as episode:
        await episode.step(native("execute_bash", {"command": PLANTED}))
        assert (await episode.evaluate()).score == 0.0
        await episode.step(native("execute_bash", {"command": PLANTED}))
        await episode.step(native("submit", {}))
        assert (await episode.evaluate()).score == 0.0


async def test_a_link_to_an_expected_result_is_no_result(service: Service) -> None:
    for link in (
        "ln -s /tests/expected.txt answer.txt",
        "cd / && rm -rf /workspace/*/app ~/app; ln -s tests ~/app",
    ):
        async with service.client.episode("harbor", "compared") as episode:
            await episode.step(native("execute_bash", {"command": link}))
            assert (await episode.evaluate()).score == 0.0
    async with service.client.episode("harbor", "compared") as episode:
        await episode.step(native("execute_bash", {"command": "echo 42 > answer.txt"}))
        assert (await episode.evaluate()).score == 1.0


async def test_the_agent_finds_no_tests_before_or_after_an_evaluation(service: Service) -> None:
    look = native(
        "execute_bash", {"command": "ls -A /tests /solution /logs/verifier; ls /workspace/candidate*"}
    )
    async with service.client.episode("harbor", "answer") as episode:
        before = await episode.step(look)
        await episode.evaluate()
        after = await episode.step(look)
        for result in (before, after):
            shown = str(result.observation.messages[0].content)
            assert "test.sh" not in shown
            assert "reward" not in shown
        await episode.step(say("```python\nopen('answer.txt', 'w').write('42')\n```"))
        assert (await episode.evaluate()).score == 1.0


async def test_an_agent_that_spoils_its_folders_is_graded_by_what_is_left(service: Service) -> None:
    async with service.client.episode("harbor", "answer") as episode:
        spoil = (
            "rm -rf /workspace/.task /mnt/workspaces/.task; mkdir /workspace/.task; chmod 0 /workspace/.task"
        )
        await episode.step(native("execute_bash", {"command": f"echo 42 > answer.txt; {spoil}"}))
        assert (await episode.evaluate()).score == 1.0


async def test_an_agent_that_uses_up_the_tasks_time_ends(service: Service) -> None:
    async with service.client.episode("harbor", "slow-agent") as episode:
        result = await episode.step(native("execute_bash", {"command": "echo 42 > answer.txt; sleep 1"}))
        assert result.truncated
        assert (await episode.evaluate()).score == 1.0


async def test_a_working_directory_that_is_too_large_is_worth_nothing(service: Service) -> None:
    async with service.client.episode("harbor", "answer") as episode:
        command = "echo 42 > answer.txt; head -c 50000000 /dev/urandom > noise"
        await episode.step(native("execute_bash", {"command": command}))
        verdict = await episode.evaluate()
        assert (verdict.score, verdict.details["note"]) == (0.0, "too large to be graded")
