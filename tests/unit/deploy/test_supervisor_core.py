"""Secrets that a node's supervisor keeps from its process boxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.supervisor_core import secret_paths
from sandbox_service.config import ServiceConfig


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////srv/store/all.sqlite",
        "sqlite+pysqlite:////srv/store/all.sqlite",
        "sqlite:////srv/store/all.sqlite?timeout=3",
    ],
    ids=["a file", "a driver", "an option"],
)
def test_the_store_and_task_files_with_solutions_are_secret(url: str):
    config = ServiceConfig.model_validate(
        {
            "store": {"url": url},
            "environments": {"code": {"task_files": ["/srv/tasks/own.toml"], "mbpp_path": "/srv/mbpp.jsonl"}},
        }
    )
    assert {str(path) for path in secret_paths(config)} == {
        "/srv/tasks/own.toml",
        "/srv/mbpp.jsonl",
        "/srv/store",
        "/srv/store/all.sqlite",
        "/srv/store/all.sqlite-wal",
        "/srv/store/all.sqlite-shm",
    }


def test_a_store_that_is_no_file_of_this_machine_has_none():
    config = ServiceConfig.model_validate({"store": {"url": "postgresql://db.example/sandbox"}})
    assert not [path for path in secret_paths(config) if "example" in str(path) or path == Path("/")]
