"""Privileges that agents lose."""

from __future__ import annotations

import os
import resource
import shutil

import pytest

from sandbox_service.runner.kernel import privileges
from tests.harness.runner_box import runner_box

WITHOUT_SETPCAP = ("setpriv", "--bounding-set=-setpcap")
CAPABILITIES = "grep -E 'Cap(Prm|Eff)' /proc/self/status | cut -f2 | sort -u"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
@pytest.mark.parametrize("command", [(), WITHOUT_SETPCAP], ids=["all-of-root", "no-setpcap"])
def test_root_without_user_ids_to_drop_to_runs_agents_without_capabilities(command: tuple[str, ...]) -> None:
    """This holds whatever root itself may do: a container's engine leaves it little."""
    with runner_box("tests.fakes.agent_world", agent_code=True, command=command) as box:
        box.create("bare")
        assert box.act("bare", do="shell", command=CAPABILITIES)["output"] == f"{0:016x}\n"
        assert box.release("bare")


@pytest.mark.parametrize("limit", [20_000, 1 << 20])
def test_no_descriptor_is_left_open_however_high_its_number(limit: int) -> None:
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        except (OSError, ValueError):
            os._exit(77)
        os.dup2(0, 10_000)
        os.dup2(0, 3)
        privileges.close_all_but(4)
        try:
            os.fstat(3)
            os.fstat(10_000)
        except OSError:
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 77:
        pytest.skip("the limit of descriptors cannot be raised")
    assert code == 0
