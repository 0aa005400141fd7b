"""Hosts that fail while they start, or in the middle of a report, and starts that are cancelled."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import psutil
import pytest

from tests.fakes.told_service import ToldService
from tests.harness.agent_episodes import agent_player, spec_of
from tests.harness.agent_jobs import JOB
from tests.harness.agent_processes import functions, gone
from tests.harness.scripted_episodes import END, SUBMIT
from tests.harness.tiny_chat import tiny_chat
from tests.harness.waiting import until
from trainer.agents.host_messages import HostSettings
from trainer.agents.hosts import HostedAgents
from trainer.config.rollout import SamplingConfig
from trainer.errors import AgentLost, ConfigError
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import StopReason

SETTINGS = HostSettings(function="json:loads")
FAILS_ONCE = f"""#!/bin/sh
echo start >> "$0.starts"
[ "$(wc -l < "$0.starts")" -eq 2 ] && exit 1
exec {sys.executable} "$@"
"""
"""A Python whose second process dies before it reads anything."""
TEARS_ITS_REPORT = f"""#!{sys.executable}
import os, socket, sys
connection = socket.socket(fileno=int(sys.argv[-1]))
lines = connection.makefile("rb")
lines.readline()
connection.sendall(b'{{"kind": "ready"}}\\n')
lines.readline()
connection.sendall(b'{{"kind":')
os._exit(1)
"""
"""A host that dies within a report, after its first job."""
RAMBLES_ONCE = f"""#!{sys.executable}
import json, os, pathlib, socket, sys, time
connection = socket.socket(fileno=int(sys.argv[-1]))
lines = connection.makefile("rb")
lines.readline()
connection.sendall(b'{{"kind": "ready"}}\\n')
first = not pathlib.Path("rambled").exists()
while line := lines.readline():
    order = json.loads(line)
    if order["kind"] == "run" and not first:
        connection.sendall(json.dumps({{"kind": "ended", "number": order["number"]}}).encode() + b"\\n")
    elif order["kind"] == "run" and order["number"] == 2:
        pathlib.Path("rambled").touch()
        connection.sendall(b"and so on\\n")
while first and not pathlib.Path("go").exists():
    time.sleep(0.01)
"""
"""A host that sends nonsense after its second job and does not end at once; the next one works."""
UNEVEN = """
import asyncio, os, pathlib, time

pathlib.Path(f"pid-{os.getpid()}").touch()
try:
    os.mkdir("first")
except FileExistsError:
    time.sleep(3600)
asyncio.get_running_loop().call_later(0.2, pathlib.Path("serving").touch)

async def play(episode):
    pass
"""
"""A module of an agent that the second host never finishes importing."""


def python_that(tmp_path, script):
    """A program in Python's place."""
    python = tmp_path / "python"
    python.write_text(script)
    python.chmod(0o755)
    return python


async def test_a_host_that_dies_before_it_reads_is_replaced_as_another_is(tmp_path):
    python = python_that(tmp_path, FAILS_ONCE)
    launcher = functions("loop", python=python)
    policy = ScriptedPolicy({"t": (SUBMIT,)}, tiny_chat())
    async with agent_player(ToldService([END]), launcher, policy) as player:
        (first,) = launcher.pids
        os.kill(first, signal.SIGKILL)
        await until(lambda: launcher.pids != (first,))
        played = await player.play_episode(spec_of(), 2, SamplingConfig())
    assert (played.stop, played.failure) == (StopReason.TERMINATED, None)
    assert (tmp_path / "python.starts").read_text().count("start") == 3


async def test_a_host_that_dies_before_it_reads_is_refused_in_a_sentence(tmp_path):
    launcher = HostedAgents(SETTINGS, 1, python=python_that(tmp_path, "#!/bin/sh\nexit 1\n"))
    with pytest.raises(ConfigError, match="the process for agents exited while it started"):
        await launcher.start()


async def test_a_log_that_cannot_be_written_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    launcher = HostedAgents(SETTINGS, 1, logs=tmp_path / "file" / "logs")
    with pytest.raises(ConfigError, match=r"agents cannot be run in .*: .*Not a directory: .*logs"):
        await launcher.start()


async def test_a_host_that_dies_within_a_report_loses_its_jobs_and_is_replaced(tmp_path):
    launcher = HostedAgents(SETTINGS, 1, python=python_that(tmp_path, TEARS_ITS_REPORT))
    await launcher.start()
    try:
        (first,) = launcher.pids
        async with asyncio.timeout(60):
            with pytest.raises(AgentLost, match=f"{first}, has ended"):
                await launcher.run(JOB)
        await until(lambda: launcher.pids != (first,))
    finally:
        await launcher.close()


async def test_a_host_that_is_being_ended_gets_no_jobs_and_leaves_a_cancellation_as_it_is(tmp_path, caplog):
    launcher = HostedAgents(SETTINGS, 1, folder=tmp_path, python=python_that(tmp_path, RAMBLES_ONCE))
    await launcher.start()
    try:
        (first,) = launcher.pids
        lost, cancelled = (asyncio.create_task(launcher.run(JOB)) for _ in range(2))
        await until(lambda: "its report cannot be read" in caplog.text)
        cancelled.cancel()
        async with asyncio.timeout(60):
            await launcher.run(JOB)
        assert psutil.pid_exists(first)
        (tmp_path / "go").touch()
        await asyncio.wait({lost, cancelled})
        assert isinstance(lost.exception(), AgentLost)
        assert cancelled.cancelled()
    finally:
        await launcher.close()


async def test_a_start_that_is_cancelled_leaves_no_host(tmp_path):
    (tmp_path / "uneven.py").write_text(UNEVEN)
    launcher = HostedAgents(HostSettings(function="uneven:play"), 2, folder=tmp_path)
    starting = asyncio.create_task(launcher.start())
    await until(lambda: len([*tmp_path.glob("pid-*")]) == 2 and (tmp_path / "serving").exists())
    hosts = [psutil.Process(int(each.name.partition("-")[2])) for each in tmp_path.glob("pid-*")]
    starting.cancel()
    await asyncio.wait({starting})
    assert starting.cancelled()
    await gone(*hosts)
    assert launcher.pids == ()
