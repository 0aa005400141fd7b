"""Boxes for the runner's tests: the same tests run with and without user ids of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness.runner_box import runner_box, uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.harness.runner_box import RunnerBox


@pytest.fixture(scope="module", params=[False, True], ids=["one-user", "own-user-ids"])
def drop(request: pytest.FixtureRequest) -> bool:
    """Whether instances get user ids of their own."""
    if request.param and (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    return bool(request.param)


@pytest.fixture(scope="module")
def agent_box(drop: bool) -> Iterator[RunnerBox]:
    """A box whose instances run agent code; shared by the tests of a module."""
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True) as box:
        yield box


@pytest.fixture
def instance(agent_box: RunnerBox, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh instance in the shared box, proven clean when it goes."""
    name = f"i-{request.node.name}"[:60]
    assert agent_box.create(name).meta["run_ms"] >= 0
    yield name
    assert agent_box.release(name)


@pytest.fixture(scope="module")
def echo_box() -> Iterator[RunnerBox]:
    """A box of the echo world, one worker for all."""
    with runner_box() as box:
        yield box
