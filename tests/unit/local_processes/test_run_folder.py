from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from local_processes.run_folder import run_folder, sweep

HOLD = "import sys,time;f=open(sys.argv[1],'w');print('open',flush=True);time.sleep(600)"


def test_the_folder_is_private_and_gone_afterwards(tmp_path: Path):
    with run_folder(tmp_path) as folder:
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "file").touch()
    assert not folder.exists()


def test_a_folder_in_use_is_not_swept(tmp_path: Path):
    with run_folder(tmp_path) as folder:
        assert sweep(tmp_path) == []
        assert folder.exists()


def test_a_folder_without_an_owner_may_be_in_the_making(tmp_path: Path):
    folder = tmp_path / "sbx-new"
    folder.mkdir()
    assert sweep(tmp_path) == []
    assert folder.exists()


def test_what_a_killed_service_left_is_ended_and_removed(tmp_path: Path):
    folder = tmp_path / "sbx-old"
    folder.mkdir()
    (folder / "owner").write_text("999999999 1")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder / "log")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert sweep(tmp_path) == [folder]
    assert process.wait(10) == -9
    process.stdout.close()
    assert not folder.exists()


def test_a_process_with_the_owners_id_but_another_start_is_not_the_owner(tmp_path: Path):
    folder = tmp_path / "sbx-old"
    folder.mkdir()
    (folder / "owner").write_text("1 999999999999")
    assert sweep(tmp_path) == [folder]


def test_a_link_to_somewhere_else_is_not_followed(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner").write_text("999999999 1")
    (tmp_path / "sbx-link").symlink_to(elsewhere)
    assert sweep(tmp_path) == []
    assert elsewhere.exists()
