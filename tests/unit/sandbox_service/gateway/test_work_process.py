"""The process for large bodies: what it gives back, and what becomes of one that hangs or dies."""

import asyncio
import os
import signal
import sys
import time

import pytest

from local_processes.process_tree import process_of
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import CapacityError, ServiceError
from sandbox_service.gateway.refusals import SchemaError
from sandbox_service.gateway.work_process import WorkProcess
from tests.harness.waiting import until


async def test_work_is_done_in_one_other_process():
    worker = WorkProcess()
    pids = {await worker.run(os.getpid) for _ in range(3)}
    assert pids == {worker.pid}
    assert os.getpid() not in pids


async def test_megabytes_go_there_and_come_back():
    body = os.urandom(1024) * 8192
    assert await WorkProcess().run(bytes.swapcase, body) == body.swapcase()


@pytest.mark.parametrize(
    "error",
    [
        ServiceError(ErrorCode.JSON_TOO_DEEP, "deep"),
        SchemaError.at("a.b", "is no"),
        CapacityError("full", 2.0),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_come_back_as_they_were_raised(error):
    with pytest.raises(type(error)) as caught:
        await WorkProcess().run(raised, error)
    assert caught.value.problem() == error.problem()


def raised(error):
    raise error


async def test_work_that_hangs_is_ended_and_the_next_is_done():
    worker = WorkProcess(timeout_s=5.0)
    await worker.run(os.getpid)
    hung = worker.pid
    worker._timeout_s = 0.05
    with pytest.raises(ServiceError) as caught:
        await worker.run(time.sleep, 600)
    assert caught.value.code is ErrorCode.DEADLINE_EXCEEDED
    assert process_of(hung) is None
    worker._timeout_s = 60.0
    assert await worker.run(abs, -1) == 1


async def test_a_process_that_was_killed_is_replaced_unnoticed():
    worker = WorkProcess()
    killed = await worker.run(os.getpid)
    os.kill(killed, signal.SIGKILL)
    assert await worker.run(os.getpid) != killed


async def test_work_that_ends_its_process_each_time_is_a_defect():
    worker = WorkProcess()
    with pytest.raises(RuntimeError, match="ended"):
        await worker.run(os._exit, 3)
    assert await worker.run(abs, -1) == 1


async def test_a_caller_that_goes_away_leaves_the_process_to_the_next():
    worker = WorkProcess()
    gone = asyncio.create_task(worker.run(time.sleep, 0.2))
    await until(lambda: worker.pid)
    gone.cancel()
    assert await worker.run(abs, -1) == 1


async def test_the_process_ends_with_its_gateway():
    code = (
        "import asyncio, os\n"
        "from sandbox_service.gateway.work_process import WorkProcess\n"
        "print(asyncio.run(WorkProcess().run(os.getpid)), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    gateway = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await gateway.communicate()
    await until(lambda: process_of(int(said)) is None)
