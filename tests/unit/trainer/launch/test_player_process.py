"""A player, here a stand-in for ``sandbox-service run``, gets the time to release its instances."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.harness.waiting import wait_until
from trainer.launch.player_process import PlayerEnd, run_player

_PLAYER = """
trap 'sleep 0.5; touch "$0/released"; kill $!; exit 130' TERM
sleep 3600 &
touch "$0/playing"
wait
"""


def played(folder: Path, timeout_s: float) -> PlayerEnd:
    return run_player(["sh", "-c", _PLAYER, str(folder)], os.environ, timeout_s)


def test_a_player_releases_its_instances_after_ctrl_c(tmp_path: Path) -> None:
    def interrupt() -> None:
        wait_until((tmp_path / "playing").exists)
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        played(tmp_path, 3600)
    interrupting.join()
    assert (tmp_path / "released").exists()


def test_a_player_releases_its_instances_at_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        played(tmp_path, 5.0)
    assert (tmp_path / "playing").exists()
    assert (tmp_path / "released").exists()


def test_a_player_says_more_than_a_pipe_holds() -> None:
    program = "import sys; sys.stdout.write('a' * 200_000); sys.stderr.write('é'); sys.exit(3)"
    ended = run_player([sys.executable, "-X", "utf8", "-c", program], os.environ, 3600)
    assert (ended.code, len(ended.output), ended.errors) == (3, 200_000, "é")
