"""The command ``bench`` and signals."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.harness.waiting import wait_until

MAIN = "from service_cli.commands.app import main; main()"


def test_sigterm_interrupts_a_benchmark_and_ends_what_it_started(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAIN, "bench", "client"]
    benchmark = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: psutil.Process(benchmark.pid).children())
        started = psutil.Process(benchmark.pid).children()
        benchmark.send_signal(signal.SIGTERM)
        _, said = benchmark.communicate(timeout=60)
        assert benchmark.returncode == 130
        assert "interrupted" in said
        wait_until(lambda: not any(each.is_running() for each in started))
    finally:
        benchmark.kill()
        benchmark.communicate()
