"""What is printed while a run starts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from trainer.cli.beginning import Beginning


class Seconds:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


def beginning(log: Path, screen: io.StringIO, clock: Seconds) -> Beginning:
    return Beginning(log, Console(file=screen, width=80), clock)


def test_the_first_line_comes_at_once_and_names_the_log(tmp_path: Path, screen: io.StringIO):
    log = tmp_path / "service.log"
    with beginning(log, screen, Seconds()):
        assert "starting the sandbox service" in screen.getvalue()
    assert str(log) in screen.getvalue()


def test_it_says_which_sandboxes_are_used_and_why(tmp_path: Path, screen: io.StringIO):
    log = tmp_path / "service.log"
    log.write_text("of an earlier run\n")
    begun = beginning(log, screen, Seconds())
    with log.open("a") as file:
        file.write("process sandboxes, since no Docker engine answers\nstarting; Ctrl-C stops ...\nhalf a li")
    begun.look()
    assert screen.getvalue() == "sandboxes: process sandboxes, since no Docker engine answers\n"


def test_where_nothing_happens_there_is_a_line_every_ten_seconds(tmp_path: Path, screen: io.StringIO):
    clock = Seconds()
    begun = beginning(tmp_path / "service.log", screen, clock)
    for second in range(60):
        clock.now = float(second)
        begun.look()
    lines = screen.getvalue().splitlines()
    assert len(lines) == 5
    assert all("so far" in line for line in lines)
    (tmp_path / "service.log").write_text("ready: http://127.0.0.1:9\n")
    clock.now = 70.0
    begun.look()
    clock.now = 80.0
    begun.look()
    assert screen.getvalue().splitlines()[-1].startswith("starting Ray, the engine and the learner: ")
