"""What a HELLO's body may say."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox_service.runner.config import RunnerConfig

LEAST = {"world_module": "w", "workspace_root": "/w/"}


def test_the_least_that_is_needed() -> None:
    config = RunnerConfig.parse(LEAST)
    assert (config.workspace(7), config.agent_uid(7), config.drop_uids) == ("/w/7", None, False)
    assert config.temporary_directory(7) == "/w/7.tmp"


def test_user_ids_of_instances_never_overlap() -> None:
    config = RunnerConfig.parse({**LEAST, "drop_uids": True, "uid_base": 1000, "env_uid": 999})
    ids = [config.keeper_uid, config.sweeper_uid]
    for serial in (1, 2, 3):
        ids += [config.agent_uid(serial), config.grader_uid(serial)]  # type: ignore[list-item]
    assert ids == list(range(1000, 1008))
    assert config.temporary_directory(7) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"workspace_root": "w"},
        {"drop_uids": True},
        {"drop_uids": True, "uid_base": 1000},
        {"drop_uids": True, "uid_base": 1000, "env_uid": 1002},
        {"limits": {"unknown": 1}},
        {"limits": None},
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        RunnerConfig.parse({**LEAST, **changes})


def test_what_a_newer_supervisor_adds_is_ignored() -> None:
    assert RunnerConfig.parse({**LEAST, "later": 1}).world_module == "w"
