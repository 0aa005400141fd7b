"""The valid and invalid bodies of a HELLO."""

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
    ids += [config.agent_uid(serial) for serial in range(1, config.most_instances + 1)]  # type: ignore[misc]
    ids += [config.candidate_uid(number) for number in range(config.uid_count // 2)]  # type: ignore[misc]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(range(1000, 1000 + config.uid_count))


def test_candidates_go_round_their_own_ids() -> None:
    given = {**LEAST, "drop_uids": True, "uid_base": 1000, "uid_count": 10, "env_uid": 999}
    config = RunnerConfig.parse(given)
    assert [config.candidate_uid(number) for number in range(6)] == [1005, 1006, 1007, 1008, 1009, 1005]


def test_without_user_ids_everything_temporary_lies_in_the_workspaces() -> None:
    config = RunnerConfig.parse({**LEAST, "drop_uids": True, "uid_base": 1000, "env_uid": 999})
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
