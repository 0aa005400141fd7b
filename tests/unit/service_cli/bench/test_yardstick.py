"""The yardstick's process ends with the benchmark, however that ends."""

import signal
import socket
import subprocess
import sys

import pytest

from tests.harness.waiting import wait_until

BENCHMARK = """
import time
from service_cli.bench.yardstick import running_yardstick

with running_yardstick() as target:
    print(target.port, flush=True)
    time.sleep(600)
"""


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_no_server_is_left_behind_by_a_benchmark_that_is(number: signal.Signals) -> None:
    benchmark = subprocess.Popen([sys.executable, "-c", BENCHMARK], stdout=subprocess.PIPE, text=True)
    try:
        assert benchmark.stdout is not None
        port = int(benchmark.stdout.readline())
        assert listens(port)
        benchmark.send_signal(number)
        wait_until(lambda: not listens(port))
    finally:
        benchmark.kill()
        benchmark.communicate()
