"""AppWorld in a real runner: the box of what is set up here, and episodes played in it."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.config import AppworldConfig
from sandbox_service.environments.appworld.service.catalog import AppworldCatalog
from sandbox_service.environments.provisions import GROUP, Provisions, find
from sandbox_service.environments.registry import SETUP_COMMAND
from sandbox_service.wire.frames import Op
from tests.harness.runner_box import RunnerBox, error_code, runner_box

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["AppWorldEpisode", "RefusedError", "appworld_box", "appworld_catalog", "guarded_copy"]

_PATIENCE_S = 150
"""Loading all of AppWorld takes seconds, and many where other tests run."""
_numbers = itertools.count(1)


class RefusedError(Exception):
    """The box answered with an error."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def appworld_catalog() -> AppworldCatalog:
    """The catalog of our own tasks, with long episodes, or a skip that says how to set them up."""
    found = find("appworld")
    if found is None:
        pytest.skip(f"appworld is not set up; run {SETUP_COMMAND} appworld")
    return AppworldCatalog(AppworldConfig(max_steps=1000), Provisions(found.folder, found.digest))


@contextlib.contextmanager
def appworld_box(catalog: AppworldCatalog, *, drop: bool = False, **changes: Any) -> Iterator[RunnerBox]:
    """A box of AppWorld."""
    provisions = catalog.spec.provisions
    assert provisions is not None
    settings = {
        "agent_code": True,
        "many_per_worker": False,
        "packages": str(provisions.packages),
        "data": str(provisions.data),
        "env_group": GROUP if drop else 0,
    }
    with runner_box(
        catalog.spec.world_module, drop=drop, wall_timeout_s=_PATIENCE_S, **(settings | changes)
    ) as box:
        yield box


@contextlib.contextmanager
def guarded_copy(catalog: AppworldCatalog) -> Iterator[Path]:
    """AppWorld's data in another folder, behind the same door."""
    assert catalog.spec.provisions is not None
    top = Path(tempfile.mkdtemp(prefix="appworld-data-", dir="/tmp"))
    try:
        shutil.copytree(catalog.spec.provisions.data, top / "data")
        shutil.chown(top, group=GROUP)
        top.chmod(0o750)
        yield top
    finally:
        shutil.rmtree(top)


@dataclass
class AppWorldEpisode:
    """One instance in a box, and what it last said."""

    box: RunnerBox
    name: str
    said: dict[str, Any]
    native: bool = True

    @classmethod
    def create(
        cls,
        box: RunnerBox,
        catalog: AppworldCatalog,
        task_id: str,
        task: dict[str, Any] | None = None,
        **params: Any,
    ) -> AppWorldEpisode:
        name = f"appworld-{next(_numbers)}"
        payload = catalog.payload(task_id)
        body = {
            "environment": "appworld",
            "task_id": task_id,
            "task": payload.task | (task or {}),
            "params": params,
        }
        meta = {"deadline_s": 60, "seed": 1, "max_steps": payload.max_steps}
        return cls(box, name, _said(box.request(Op.CREATE, name, meta=meta, body=body)))

    def step(self, message: dict[str, Any] | str, deadline_s: float = 60) -> list[dict[str, Any]]:
        """Take an action; the messages that answer it."""
        whole = message if isinstance(message, dict) else {"role": "assistant", "content": message}
        meta = {"deadline_s": deadline_s}
        self.said = _said(self.box.request(Op.STEP, self.name, meta=meta, body={"message": whole}))
        messages: list[dict[str, Any]] = self.said["observation"]["messages"]
        return messages

    def run(self, code: str, deadline_s: float = 60) -> str:
        """Run a cell; AppWorld's answer to it."""
        call = {"name": "appworld", "arguments": json.dumps({"code": code})}
        message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": call}]}
        (answer,) = self.step(message, deadline_s)
        return str(answer["content"]).removeprefix("Output:\n```\n").removesuffix("```\n\n")

    def solve(self, catalog: AppworldCatalog, task_id: str) -> None:
        """Play the reference."""
        for message in catalog.reference(task_id):
            self.step(dict(message))

    def verdict(self, **params: Any) -> dict[str, Any]:
        body = {"params": params, "grading": {}}
        return _said(self.box.request(Op.EVALUATE, self.name, meta={"deadline_s": 60}, body=body))

    def release(self) -> None:
        assert self.box.release(self.name)


def _said(reply: Any) -> dict[str, Any]:
    if reply.op is not Op.REPLY:
        raise RefusedError(error_code(reply))
    said: dict[str, Any] = json.loads(reply.body)
    return said
