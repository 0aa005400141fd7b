"""Ctrl-C in commands: answered at once, and with the end that asyncio gives its work."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.waiting import wait_until
from trainer.cli.interrupts import acknowledging

_COMMAND = """
import asyncio, pathlib, sys
import typer
from trainer.cli.terminal import explained, notes

folder = pathlib.Path(sys.argv[1])
noted = sys.argv[2:] == ["noted"]

async def release():
    (folder / "releasing").touch()
    while not (folder / "go").exists():
        await asyncio.sleep(0.01)
    (folder / "released").touch()

async def work():
    releasing = asyncio.create_task(release())
    try:
        await asyncio.shield(releasing)
    finally:
        await releasing
        if noted:
            notes().print("released")

try:
    with explained("interrupted"):
        asyncio.run(work())
except typer.Exit as left:
    sys.exit(left.exit_code)
"""


def interrupt(
    folder: Path, stderr: int, *words: str, answered: Callable[[], object] = lambda: True
) -> subprocess.Popen[bytes]:
    """Run a command, and interrupt it while it releases something, which ends once it has answered."""
    process = subprocess.Popen([sys.executable, "-c", _COMMAND, str(folder), *words], stderr=stderr)
    with process:
        wait_until(lambda: (folder / "releasing").exists() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: answered() or process.poll() is not None)
        (folder / "go").touch()
    return process


def test_a_release_that_is_under_way_is_awaited(tmp_path: Path) -> None:
    said = tmp_path / "stderr"
    with said.open("wb") as stderr:
        left = interrupt(tmp_path, stderr.fileno(), answered=said.read_bytes)
    assert (left.returncode, (tmp_path / "released").exists()) == (130, True)
    assert said.read_text() == "stopping ...\ninterrupted\n"


@pytest.mark.parametrize("words", [(), ("noted",)], ids=["silent", "with a notice"])
def test_a_reader_that_got_the_same_ctrl_c_changes_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    left = interrupt(tmp_path, writing, *words)
    os.close(writing)
    assert (left.returncode, (tmp_path / "released").exists()) == (130, True)


def interrupted_work(capfd) -> str:
    said = ""
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    while not said:
        said = capfd.readouterr().err
    return said


def test_ctrl_c_is_answered_while_the_work_goes_on(capfd) -> None:
    with acknowledging("stopping ..."):
        assert interrupted_work(capfd) == "stopping ...\n"


def test_a_reader_that_is_gone_is_no_interruption_without_ctrl_c() -> None:
    for error in (BrokenPipeError(), SystemExit(1)):
        with pytest.raises(type(error)), acknowledging("stopping ..."):
            raise error


def test_outside_the_main_thread_nothing_is_handled() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def work() -> None:
        with acknowledging("stopping ..."):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
