"""The command line of a runner, and its first message."""

import dataclasses
import json
from pathlib import Path

import pytest

from sandbox_service.environments.base import Provisions
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.runner.config import RunnerConfig as Understood
from sandbox_service.sandboxes.launch import BoxFolders, RunnerLimits, configure, interpreter_arguments

LIMITS = RunnerLimits(open_files=64, processes=10, address_space_mib=None, file_mib=8)
UIDS = range(1_000_000_000, 1_000_065_536)


def configured(uids, *scratch):
    return configure(EchoCatalog.spec, BoxFolders("/workspace", scratch), uids, LIMITS, cleanup_cpu_s=7.5)


def understood(config) -> Understood:
    """The configuration as the runner reads it."""
    return Understood.parse(json.loads(json.dumps(config.body())))


def test_the_runner_understands_what_it_is_told():
    found = understood(configured(UIDS, "/tmp"))
    assert found.world_module == EchoCatalog.spec.world_module
    assert found.many_per_worker is True
    assert found.agent_code is False
    assert found.scratch == ("/tmp",)
    assert found.cleanup_cpu_s == 7.5
    assert dataclasses.asdict(found.limits) == dataclasses.asdict(LIMITS)


def test_every_user_id_lies_in_the_boxs_range():
    found = understood(configured(UIDS))
    assert found.drop_uids is True
    assert found.env_uid in UIDS
    assert found.uid_base in UIDS
    assert found.uid_base + found.uid_count - 1 in UIDS


def test_without_user_ids_none_are_dropped():
    assert understood(configured(None)).drop_uids is False


def test_neither_environment_nor_working_directory_decide_what_the_runner_imports():
    arguments = interpreter_arguments("/opt/sandbox", "/run/sandbox/runner.sock", EchoCatalog.spec)
    assert arguments[0] == "-I"
    assert "/opt/sandbox" in arguments


@pytest.mark.parametrize(
    ("provisions", "ahead"),
    [(None, (EchoCatalog.spec.world_module,)), (Provisions(Path("/srv/echo"), "0"), ())],
    ids=["without packages", "with packages"],
)
def test_only_a_world_without_packages_is_imported_with_the_runners_rights(provisions, ahead):
    spec = dataclasses.replace(EchoCatalog.spec, provisions=provisions)
    arguments = interpreter_arguments("/opt/sandbox", "/run/sandbox/runner.sock", spec)
    assert arguments[arguments.index("/run/sandbox/runner.sock") + 1 :] == ahead
