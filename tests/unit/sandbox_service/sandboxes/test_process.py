"""The factory of process boxes."""

import asyncio
import os
import secrets
import threading

import pytest

from sandbox_service.config import SandboxConfig
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes import namespaces
from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.factory import open_factory
from sandbox_service.sandboxes.process import ProcessFactory
from sandbox_service.sandboxes.state import StateDir
from tests.harness.boxes import ECHO
from tests.harness.waiting import until


async def test_the_log_says_once_what_protects_boxes_and_that_they_are_no_boundary(tmp_path, caplog):
    config = SandboxConfig(kind="process", state_dir=tmp_path)
    factory = await open_factory(config, f"log{secrets.token_hex(4)}")
    assert factory.protections() == {}
    try:
        for _ in range(2):
            box = await factory.start(ECHO, lambda _: None, lambda _: None)
            await box.destroy()
    finally:
        await factory.close()
    (line,) = [
        record.msg
        for record in caplog.records
        if isinstance(record.msg, dict) and record.msg["event"] == "process_sandboxes_are_no_boundary"
    ]
    assert "own user ids" in factory.protections()
    assert line["protections"] == factory.protections()


async def test_a_busy_moment_at_the_first_start_is_not_remembered(tmp_path, monkeypatch):
    slow = tmp_path / "bin" / "unshare"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    monkeypatch.setattr(namespaces, "PROBE_S", 0.1)
    state = StateDir.open(tmp_path / "state", "n1")
    factory = ProcessFactory(state, f"busy{secrets.token_hex(4)}", SandboxLimits())
    try:
        with pytest.raises(ServiceError, match="did not end within"):
            await factory.start(ECHO, lambda _: None, lambda _: None)
        assert factory.hosts == {}
    finally:
        await factory.close()


async def test_boxes_without_namespaces_start_in_a_state_folder_whose_path_is_long(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    state = StateDir.open(tmp_path / ("long" * 25), "n1")
    factory = ProcessFactory(state, f"long{secrets.token_hex(4)}", SandboxLimits())
    free = factory.uid_ranges.free
    try:
        box = await factory.start(ECHO, lambda _: None, lambda _: None)
        assert factory.protections()["own namespaces"] is False
        await box.destroy()
        assert factory.uid_ranges.free == free
    finally:
        await factory.close()


class SlowState(StateDir):
    """A state folder on a disk that takes as long as the test wants."""

    entered = False
    box_dirs_may_be_made: threading.Event

    def make_box_dir(self, box, many_users):
        if box.startswith("process-"):
            self.entered = True
            assert self.box_dirs_may_be_made.wait(30)
        return super().make_box_dir(box, many_users)


async def test_a_start_that_is_cancelled_while_its_folder_is_made_leaves_nothing(tmp_path):
    state = SlowState.open(tmp_path, "n1")
    state.box_dirs_may_be_made = threading.Event()
    factory = ProcessFactory(state, f"cancelled{secrets.token_hex(4)}", SandboxLimits())
    free = factory.uid_ranges.free
    try:
        start = asyncio.create_task(factory.start(ECHO, lambda _: None, lambda _: None))
        await until(lambda: state.entered)
        start.cancel()
        state.box_dirs_may_be_made.set()
        with pytest.raises(asyncio.CancelledError):
            await start
        await until(lambda: factory.uid_ranges.free == free)
        assert list(state.boxes.iterdir()) == []
    finally:
        await factory.close()
