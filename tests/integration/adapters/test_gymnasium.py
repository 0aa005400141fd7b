"""A Gymnasium environment whose service fails: an error with its class, and no reward."""

import asyncio
import subprocess

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
except SandboxError as error:
    print(error.code)
"""


async def test_an_episode_whose_counterpart_is_a_model_is_refused_and_released(address, backend):
    backend.awaits = Op.CREATE
    python = await asyncio.to_thread(agent_python, "adapters/gymnasium")
    words = [python, "-c", COUNTERPART, address]
    played = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, timeout=120)
    assert played.stdout == "counterpart_missing\n", played.stderr
    assert [episode.released for episode in backend.episodes.values()] == [True]


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
