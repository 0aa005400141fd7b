"""A store whose process is killed, or whose disk is full."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import StoreConfig
from sandbox_service.errors import ServiceError
from sandbox_service.trajectories.store import open_store
from tests.harness.episodes import event, instance
from tests.harness.store_writer import INSTANCES
from tests.harness.waiting import until

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("lines", [1, 3])
async def test_a_killed_process_leaves_a_prefix_with_everything_it_promised(tmp_path, lines):
    url = f"sqlite:///{tmp_path}/trajectories.sqlite"
    command = [sys.executable, "-m", "tests.harness.store_writer", url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:  # noqa: ASYNC220
        promised = [int(writer.stdout.readline()) for _ in range(lines)][-1]
        # Somewhere in the midst of the next transactions.
        time.sleep(0.003)  # noqa: ASYNC251
        writer.send_signal(signal.SIGKILL)
    store = open_store(StoreConfig(url=url))
    found = [[one.sequence for one in await store.events(f"s1.{number}")] for number in range(INSTANCES)]
    written = sum(map(len, found))
    assert written >= promised
    # Event n went to instance n modulo INSTANCES: of a prefix, each has its share and no gap.
    for number, sequences in enumerate(found):
        assert sequences == list(range((written - number + INSTANCES - 1) // INSTANCES))
    await store.close()


def test_files_that_may_not_grow_make_the_store_refuse_until_they_may(tmp_path):
    command = [sys.executable, "-m", "tests.harness.small_files", f"sqlite:///{tmp_path}/trajectories.sqlite"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    refused, held = done.stdout.splitlines()
    code, taken = refused.split()
    assert code == "storage_full"
    assert int(held) == int(taken) + 1


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def fill(store):
    """Append until the store refuses; gives the error and the number of events that it took."""
    taken = 0
    while True:
        try:
            store.append(event(sequence=taken, response=bytes(4096)))
        except ServiceError as error:
            return error, taken
        taken += 1
        await asyncio.sleep(0.002)


async def test_a_full_disk_makes_the_store_refuse_until_there_is_room_again(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1024 * 1024))
    store = open_store(
        StoreConfig(
            url=f"sqlite:///{small_disk}/t.sqlite", batch_size=8, batch_interval_s=0.001, max_failing_s=0.2
        )
    )
    store.open_instance(instance())
    error, taken = await fill(store)
    assert error.code is ErrorCode.STORAGE_FULL
    assert store.stats().last_error
    ballast.unlink()
    # It tries again by itself.
    await until(lambda: not store.stats().last_error)
    assert [one.sequence for one in await store.events("s1.a")] == list(range(taken))
    store.append(event(sequence=taken))
    await store.close()
