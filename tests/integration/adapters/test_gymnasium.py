"""A Gymnasium environment whose service fails: an error with its class, and no reward."""

import asyncio
import subprocess

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Op
from tests.harness.agent_packages import agent_python

SCRIPT = """
import sys
import gymnasium
import sandbox_client.adapters.gymnasium
from sandbox_client import SandboxError

env = gymnasium.make("sandbox/Episode-v0", base_url=sys.argv[1], environment="echo", task_ids=["echo-1"])
env.reset()
try:
    print("reward", env.step("hello")[1])
except SandboxError as error:
    print("failure of class", error.failure_class.value)
print("next task", env.reset()[1]["task_id"])
env.close()
"""


COUNTERPART = """
import sys
import gymnasium
import sandbox_client.adapters.gymnasium
from sandbox_client import SandboxError

env = gymnasium.make("sandbox/Episode-v0", base_url=sys.argv[1], environment="echo", task_ids=["echo-1"])
try:
    env.reset()
    env.step("hello")
except SandboxError as error:
    print(error.code)
try:
    env.step("hello")
except gymnasium.error.ResetNeeded:
    print("over")
"""


BOUNDED = """
import sys
import gymnasium
import sandbox_client.adapters.gymnasium

name, task_ids = "sandbox/Episode-v0", ["echo-10"]
env = gymnasium.make(name, base_url=sys.argv[1], environment="echo", task_ids=task_ids, max_steps=2)
for _ in range(2):
    env.reset()
    for _ in range(2):
        _, reward, terminated, truncated, info = env.step("hello")
        print(reward, terminated, truncated, "evaluation" in info)
    try:
        env.step("hello")
    except gymnasium.error.ResetNeeded:
        print("over")
env.close()
"""


async def test_an_episode_is_evaluated_after_its_greatest_number_of_steps(address, backend):
    python = await asyncio.to_thread(agent_python, "adapters/gymnasium")
    words = [python, "-c", BOUNDED, address]
    played = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, timeout=120)
    bounded = "0.0 False False False\n0.2 False True True\nover\n"
    assert played.stdout == 2 * bounded, played.stderr
    assert [(each.steps, each.released) for each in backend.episodes.values()] == 2 * [(2, True)]


@pytest.mark.parametrize(("after", "steps"), [(Op.CREATE, 0), (Op.STEP, 1)])
async def test_an_episode_whose_counterpart_is_a_model_is_refused_and_released(
    address, backend, after, steps
):
    backend.awaits = after
    python = await asyncio.to_thread(agent_python, "adapters/gymnasium")
    words = [python, "-c", COUNTERPART, address]
    played = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, timeout=120)
    assert played.stdout == "counterpart_missing\nover\n", played.stderr
    assert [(each.steps, each.released) for each in backend.episodes.values()] == [(steps, True)]


async def test_a_verdict_that_fails_is_an_error_and_the_next_episode_starts(address, backend):
    backend.failures[Op.EVALUATE] = ServiceError(ErrorCode.SANDBOX_FAILED, "broken")
    python = await asyncio.to_thread(agent_python, "adapters/gymnasium")
    played = await asyncio.to_thread(
        subprocess.run,
        [python, "-c", SCRIPT, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert played.stdout == "failure of class sandbox\nnext task echo-1\n", played.stderr
    assert [episode.released for episode in backend.episodes.values()] == [True, True]
