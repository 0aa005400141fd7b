"""WebShop in a real runner: the box of a catalog, and episodes played in it."""

import contextlib
import functools
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sandbox_service.config import WebshopConfig
from sandbox_service.environments.provisions import find
from sandbox_service.environments.webshop.service.catalog import WebshopCatalog
from sandbox_service.wire.frames import Op
from tests.harness.runner_box import RunnerBox, error_code, runner_box

WORLD = "sandbox_service.environments.webshop.box.world"
_numbers = itertools.count(1)


@functools.cache
def own_catalog() -> WebshopCatalog:
    """The catalog of our own products."""
    return _catalog(None)


@functools.cache
def full_catalog() -> WebshopCatalog:
    """The catalog of the 1,000 products that ``SANDBOX_WEBSHOP_PATH`` names."""
    folder = os.environ.get("SANDBOX_WEBSHOP_PATH")
    if not folder:
        pytest.skip("SANDBOX_WEBSHOP_PATH names no folder with WebShop's products")
    return _catalog(Path(folder))


def _catalog(data: Path | None) -> WebshopCatalog:
    found = find("webshop")
    if found is None:
        pytest.skip("webshop is not set up; run sandbox-service envs setup webshop")
    # Not what the operator of this machine may have noted for it.
    return WebshopCatalog(WebshopConfig(data=data), replace(found, operator_data=data))


@contextlib.contextmanager
def shop_box(catalog: WebshopCatalog, **changes: Any) -> Iterator[RunnerBox]:
    """A box of the shop."""
    provisions = catalog.spec.provisions
    assert provisions is not None
    settings = {"many_per_worker": True, "packages": str(provisions.packages), "data": str(provisions.data)}
    with runner_box(WORLD, **(settings | changes)) as box:
        yield box


@dataclass
class Episode:
    """One instance in a box, and what it last said."""

    box: RunnerBox
    name: str
    said: dict[str, Any]

    @classmethod
    def create(cls, box: RunnerBox, catalog: WebshopCatalog, task_id: str, **params: Any) -> "Episode":
        name = f"webshop-{next(_numbers)}"
        body = {
            "environment": "webshop",
            "task_id": task_id,
            "task": catalog.payload(task_id).task,
            "params": params,
        }
        meta = {"deadline_s": 20, "seed": 1, "max_steps": catalog.payload(task_id).max_steps}
        reply = box.request(Op.CREATE, name, meta=meta, body=body)
        if reply.op is not Op.REPLY:
            raise RefusedError(error_code(reply), reply.body.decode())
        return cls(box, name, json.loads(reply.body))

    @property
    def info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.said["info"]
        return info

    def act(self, message: str | dict[str, Any]) -> str:
        """Take an action; the answer's text."""
        whole = message if isinstance(message, dict) else {"role": "assistant", "content": message}
        reply = self.box.request(Op.STEP, self.name, meta={"deadline_s": 20}, body={"message": whole})
        if reply.op is not Op.REPLY:
            raise RefusedError(error_code(reply), reply.body.decode())
        self.said = json.loads(reply.body)
        text: str = self.said["observation"]["messages"][-1]["content"]
        return text

    def play(self, actions: Sequence[str]) -> str:
        """Take actions, one a message; the last answer's text."""
        return [self.act(action) for action in actions][-1]

    def verdict(self, **params: Any) -> dict[str, Any]:
        body = {"params": params, "grading": {}}
        reply = self.box.request(Op.EVALUATE, self.name, meta={"deadline_s": 20}, body=body)
        if reply.op is not Op.REPLY:
            raise RefusedError(error_code(reply), reply.body.decode())
        verdict: dict[str, Any] = json.loads(reply.body)
        return verdict

    def release(self) -> None:
        self.box.release(self.name)


class RefusedError(Exception):
    """The box answered with an error."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code


def reference(catalog: WebshopCatalog, task_id: str) -> list[str]:
    return [str(message["content"]) for message in catalog.reference(task_id)]
