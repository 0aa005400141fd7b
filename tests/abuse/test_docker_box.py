"""A hardened container as the engine itself describes it; ``test_hostile_code.py`` attacks it from inside."""

import asyncio
import contextlib

import docker
import pytest

from tests.harness.boxes import need_engine
from tests.harness.hostile_boxes import in_a_box

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def container():
    """Return a started box as the engine itself describes it."""
    need_engine()

    async def inspect(box):
        with contextlib.closing(docker.from_env()) as engine:
            return await asyncio.to_thread(engine.api.inspect_container, box.sandbox_id)

    return in_a_box("docker", inspect)


def test_the_engine_runs_the_box_as_it_was_told(container):
    host = container["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert sorted(cap.removeprefix("CAP_") for cap in host["CapAdd"]) == ["KILL", "SETGID", "SETUID"]
    assert host["LogConfig"]["Type"] == "none"
    assert host["Memory"] == host["MemorySwap"] == 256 << 20
    assert host["PidsLimit"] == 64
    assert container["Config"]["Env"] is None or not [
        variable
        for variable in container["Config"]["Env"]
        if not variable.startswith(("PATH=", "LANG=", "PYTHON", "GPG_KEY="))
    ]
    assert [mount["Destination"] for mount in container["Mounts"] if mount["Type"] == "bind"] == [
        "/run/sandbox"
    ]
