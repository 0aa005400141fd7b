"""The work process: what it gives back, and what becomes of one that hangs or dies."""

import asyncio
import importlib
import os
import signal
import sys
import time

import pytest

from local_processes.process_tree import process_of
from local_processes.work_process import NotBegunError, WorkProcess
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import OverCapacityError, ServiceError
from sandbox_service.gateway.schema_errors import SchemaError
from tests.harness.waiting import until

PATIENCE_S = 300.0
"""A process takes long to start on a busy machine."""


async def test_work_is_done_in_one_other_process():
    worker = WorkProcess("work", PATIENCE_S)
    pids = {await worker.run(os.getpid) for _ in range(3)}
    assert pids == {worker.pid}
    assert os.getpid() not in pids


async def test_megabytes_go_there_and_come_back():
    body = os.urandom(1024) * 8192
    assert await WorkProcess("work", PATIENCE_S).run(bytes.swapcase, body) == body.swapcase()


async def test_long_bytes_inside_of_a_value_come_back_in_their_places():
    long, short = os.urandom(200_000), b"x"
    value = [{"long": long, "short": short}, [long, b"", long[:-1]]]
    assert await WorkProcess("work", PATIENCE_S).run(list, value) == value


async def test_work_that_cannot_be_found_fails_and_the_next_is_done():
    worker = WorkProcess("work", PATIENCE_S)
    with pytest.raises(ModuleNotFoundError):
        await worker.run(_Missing())
    assert await worker.run(abs, -1) == 1


class _Missing:
    """Pickled as a function of a module that is not there."""

    def __reduce__(self):
        return importlib.import_module, ("no_such_module",)

    def __call__(self):
        raise AssertionError


@pytest.mark.parametrize(
    "error",
    [
        ServiceError(ErrorCode.JSON_TOO_DEEP, "deep"),
        SchemaError.of_field("a.b", "is no"),
        OverCapacityError("full", 2.0),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_come_back_as_they_were_raised(error):
    with pytest.raises(type(error)) as caught:
        await WorkProcess("work", PATIENCE_S).run(raised, error)
    assert caught.value.problem() == error.problem()


def raised(error):
    raise error


async def test_work_that_hangs_is_ended_and_the_next_is_done():
    worker = WorkProcess("work", timeout_s=5.0)
    await worker.run(os.getpid)
    hung = worker.pid
    worker.timeout_s = 0.05
    with pytest.raises(TimeoutError):
        await worker.run(time.sleep, 600)
    assert process_of(hung) is None
    worker.timeout_s = 60.0
    assert await worker.run(abs, -1) == 1


async def test_work_that_waited_too_long_is_not_begun_and_the_next_is_done(tmp_path):
    worker = WorkProcess("work", PATIENCE_S, wait_s=1.0)
    first = asyncio.create_task(worker.run(time.sleep, 1.5))
    second = asyncio.create_task(worker.run((tmp_path / "begun").touch))
    await first
    with pytest.raises(NotBegunError, match="not begun within 1 s"):
        await second
    assert not (tmp_path / "begun").exists()
    assert await worker.run(abs, -1) == 1


async def test_a_process_that_was_killed_is_replaced_unnoticed():
    worker = WorkProcess("work", PATIENCE_S)
    killed = await worker.run(os.getpid)
    os.kill(killed, signal.SIGKILL)
    assert await worker.run(os.getpid) != killed


async def test_work_that_ends_its_process_each_time_is_a_defect():
    worker = WorkProcess("work", PATIENCE_S)
    with pytest.raises(RuntimeError, match="ended"):
        await worker.run(os._exit, 3)
    assert await worker.run(abs, -1) == 1


async def test_a_caller_that_goes_away_leaves_the_process_to_the_next():
    worker = WorkProcess("work", PATIENCE_S)
    gone = asyncio.create_task(worker.run(time.sleep, 0.2))
    await until(lambda: worker.pid)
    gone.cancel()
    assert await worker.run(abs, -1) == 1


async def test_the_process_ends_with_its_owner():
    code = (
        "import asyncio, os\n"
        "from local_processes.work_process import WorkProcess\n"
        "print(asyncio.run(WorkProcess('work').run(os.getpid)), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await owner.communicate()
    await until(lambda: process_of(int(said)) is None)


async def test_a_process_without_work_ends_and_the_next_work_starts_another():
    worker = WorkProcess("work", PATIENCE_S, idle_s=0.01)
    first = await worker.run(os.getpid)
    await until(lambda: process_of(first) is None)
    assert await worker.run(os.getpid) != first


async def test_a_closed_one_finishes_its_work_and_ends_its_process():
    worker = WorkProcess("work", PATIENCE_S, idle_s=60.0)
    pid = await worker.run(os.getpid)
    begun = asyncio.create_task(worker.run(time.sleep, 0.05))
    await asyncio.sleep(0)
    worker.close()
    worker.close()
    await begun
    await until(lambda: process_of(pid) is None)
