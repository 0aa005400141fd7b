import asyncio
import os
import signal

import pytest

from local_processes.loop_signals import stop_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_server_is_stopped_by_one_signal_and_a_second_has_its_usual_effect(
    number: signal.Signals,
) -> None:
    with stop_signals() as stopped:
        os.kill(os.getpid(), number)
        async with asyncio.timeout(60):
            await stopped.wait()
        left = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    assert left == [signal.default_int_handler, signal.SIG_DFL]
