"""Folders with packages of agents are checked before any box is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.agent_packages import check_packages


def test_a_folder_that_everybody_can_read_is_taken(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    check_packages({"tool": tmp_path})


def test_a_folder_that_agents_cannot_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(ServiceError, match=r"agents\.packages\.tool: other users cannot read"):
        check_packages({"tool": tmp_path})


@pytest.mark.parametrize("folder", [Path("relative"), Path("/no/such/folder")])
def test_what_is_no_folder_is_refused(folder: Path) -> None:
    with pytest.raises(ServiceError, match="is no absolute path of a folder"):
        check_packages({"tool": folder})
