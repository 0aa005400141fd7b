"""Privileges that agents lose."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.harness.runner_box import runner_box

WITHOUT_SETPCAP = ("setpriv", "--bounding-set=-setpcap")
CAPABILITIES = "grep -E 'Cap(Prm|Eff)' /proc/self/status | cut -f2 | sort -u"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
@pytest.mark.parametrize("command", [(), WITHOUT_SETPCAP], ids=["all-of-root", "no-setpcap"])
def test_root_without_user_ids_to_drop_to_runs_agents_without_capabilities(command: tuple[str, ...]) -> None:
    """Whatever root itself may do: a container's engine leaves it little."""
    with runner_box("tests.fakes.agent_world", agent_code=True, command=command) as box:
        box.create("bare")
        assert box.act("bare", do="shell", command=CAPABILITIES)["output"] == f"{0:016x}\n"
        assert box.release("bare")
