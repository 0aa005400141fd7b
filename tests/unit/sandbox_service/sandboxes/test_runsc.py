"""Finding gVisor's program, and its command lines."""

import os

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, TrialTimeoutError
from sandbox_service.sandboxes import runsc
from sandbox_service.sandboxes.runsc import Runsc, installed_runsc, open_runsc, release_of
from sandbox_service.sandboxes.state import StateDir


def program(tmp_path, version, script=""):
    path = tmp_path / "runsc"
    path.write_text(f"#!/bin/sh\necho '{version}'\n{script}")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("runsc version 0.0~20240729.0\nspec: 1.2.0\n", 20240729),
        ("runsc version release-20260105.0\nspec: 1.2.0\n", 20260105),
        ("runsc version VERSION_MISSING\n", None),
    ],
)
def test_a_release_is_read_from_what_the_program_prints(text, release):
    assert release_of(text) == release


def test_a_program_that_is_missing_is_an_error_with_a_mend(tmp_path):
    with pytest.raises(ServiceError, match="make runsc") as caught:
        installed_runsc(str(tmp_path / "none"))
    assert caught.value.code is ErrorCode.SANDBOX_FAILED


def test_an_old_release_is_refused(tmp_path):
    with pytest.raises(ServiceError, match=r"20221219.*older than"):
        installed_runsc(program(tmp_path, "runsc version 0.0~20221219.0"))


def test_a_release_without_a_date_is_taken(tmp_path):
    path = program(tmp_path, "runsc version VERSION_MISSING")
    assert installed_runsc(path) == path


async def test_a_trial_that_takes_too_long_takes_no_protection_away(tmp_path, monkeypatch):
    monkeypatch.setattr(runsc, "TRIAL_S", 0.1)
    slow = 'case "$*" in *--ignore-cgroups*) ;; *" run "*) exec sleep 600 ;; esac\n'
    path = program(tmp_path, "runsc version VERSION_MISSING", slow)
    state = StateDir.open(tmp_path / "state", "n1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    try:
        with pytest.raises(TrialTimeoutError):
            await open_runsc(path, state, "systrap", tmp_path)
        assert list(state.boxes.iterdir()) == []
    finally:
        state.close()


def test_a_box_has_no_network_and_control_groups_only_where_they_work(tmp_path):
    found = Runsc("runsc", tmp_path, "systrap", rootless=False)
    assert "--network=none" in found.command("run")
    assert "--ignore-cgroups" in found.command("run")
    assert "--ignore-cgroups" not in Runsc("runsc", tmp_path, "kvm", False, cgroups=True).command("run")
