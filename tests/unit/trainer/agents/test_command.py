"""A command that is cancelled while it starts leaves nothing behind."""

import asyncio
import contextlib
import os
import time
from pathlib import Path

import psutil

from local_processes.prctl import adopting_orphans
from tests.harness.agent_jobs import JOB
from trainer.agents.command import CommandAgents


def pipes():
    """Pipes that this process has open."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(str(each.readlink()))
    return {name for name in found if name.startswith("pipe:")}


async def test_a_command_that_is_cancelled_while_it_starts_leaves_no_process_and_no_pipe(tmp_path) -> None:
    child = tmp_path / "child"
    words = ("sh", "-c", f"sleep 3600 & echo $! > {child}.new; mv {child}.new {child}; wait")
    before = pipes()
    with adopting_orphans():
        running = asyncio.create_task(CommandAgents(words, os.environ).run(JOB))
        await asyncio.sleep(0)
        while not child.exists():  # the event loop is busy while the command starts another process
            time.sleep(0.005)  # noqa: ASYNC251
        running.cancel()
        await asyncio.wait({running})
    assert running.cancelled()
    assert not psutil.pid_exists(int(child.read_text()))
    assert pipes() <= before
