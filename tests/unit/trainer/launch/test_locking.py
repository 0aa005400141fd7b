import errno
import fcntl
import signal
import subprocess
import sys

import pytest

from trainer.config import RunConfig
from trainer.errors import ConfigError
from trainer.launch.folder import RunFolder
from trainer.launch.locking import fresh_snapshots, is_locked, locked
from trainer.weight_sync.snapshots import snapshot_folder

HOLD = """
import sys, time
from pathlib import Path

from trainer.launch.locking import fresh_snapshots

with fresh_snapshots(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "weights").mkdir()
    return RunConfig(name="mine", root=tmp_path / "runs", sync={"folder": tmp_path / "weights"})


def weights(config):
    return snapshot_folder(config.folder, config.sync.folder)


def driver(config):
    """Another process that keeps snapshots."""
    command = [sys.executable, "-c", HOLD, str(weights(config))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_run_that_is_going_on_is_neither_resumed_nor_replaced(config):
    folder = RunFolder.open(config, resume=False)
    with locked(folder.path):
        with pytest.raises(ConfigError, match="is in progress; end it first"):
            RunFolder.open(config, resume=True)
        with pytest.raises(ConfigError, match="is in progress; end it first"):
            RunFolder.check_name(config, resume=False, replace=True)
        with pytest.raises(ConfigError, match="another process uses"), locked(folder.path):
            pass
    assert RunFolder.open(config, resume=True).path == folder.path
    RunFolder.check_name(config, resume=False, replace=True)


def test_synced_weights_go_with_the_run(config):
    with fresh_snapshots(weights(config)):
        assert is_locked(weights(config))
    assert not weights(config).exists()


def test_weights_of_a_killed_driver_go_with_the_next_start_and_those_of_a_living_one_stay(config, tmp_path):
    killed = config.model_copy(update={"name": "killed"})
    with driver(config) as living, driver(killed) as dying:
        dying.send_signal(signal.SIGKILL)
        dying.wait(30)
        foreign = tmp_path / "weights" / "trainer-without-a-lock"
        foreign.mkdir()
        assert weights(killed).exists()
        with fresh_snapshots(weights(config.model_copy(update={"name": "next"}))):
            assert not weights(killed).exists()
            assert weights(config).exists()
            assert foreign.exists()
        living.kill()


def test_without_locks_a_run_goes_on_and_no_weights_are_taken_for_abandoned(config, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    other = config.model_copy(update={"name": "other"})
    folder = RunFolder.open(config, resume=False)
    with locked(folder.path), fresh_snapshots(weights(config)), fresh_snapshots(weights(other)):
        assert RunFolder.open(config, resume=True).path == folder.path
        assert weights(config).exists()
