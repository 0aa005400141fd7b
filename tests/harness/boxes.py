"""Boxes for tests: a probe environment, the images it needs, and an instance's operations in few words."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from deploy.preparation import build_root
from sandbox_service.config import SandboxConfig, ServiceConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.base import Sandbox
from sandbox_service.sandboxes.docker import DockerEngine, EngineInfo
from sandbox_service.sandboxes.images import build_images
from sandbox_service.sandboxes.runsc import installed_runsc
from sandbox_service.stream.failures import reply_or_raise
from sandbox_service.wire.frames import Frame, Op

DEADLINE_S = 60.0
"""For one operation: other tests use the machine, and a box ends a storm of processes slowly."""

ECHO = EchoCatalog.spec
PROBE = replace(
    ECHO,
    name="probe",
    world_module="tests.fakes.probe.box.world",
    agent_code=True,
    many_per_worker=False,
    deterministic=False,
    instances_per_box=1,
)
KINDS = [
    pytest.param("process", id="process"),
    pytest.param("docker", id="docker", marks=pytest.mark.docker),
    pytest.param("runsc", id="runsc", marks=pytest.mark.docker),
    pytest.param("gvisor", id="gvisor"),
]
"""The kinds of box, as parameters of fixtures; ``runsc`` is Docker with gVisor as the runtime."""
IN_GVISOR = ("runsc", "gvisor")


@cache
def missing_engine() -> str | None:
    """Return why there is no Docker engine for tests; where there is one, build the images of the tests."""

    async def look() -> str | None:
        try:
            engine = await DockerEngine.connect(None, 3)
        except ServiceError as error:
            return error.detail
        try:
            await build_images(engine, [ECHO, PROBE, CodeCatalog.spec], lambda _: None)
        finally:
            await engine.close()
        return None

    reason = asyncio.run(look())
    if reason is not None and os.environ.get("CI_REQUIRE_DOCKER") == "1":
        pytest.fail(f"Docker is required here: {reason}")
    return reason


def need_kind(kind: str) -> None:
    """Skip where there are no boxes of a kind."""
    if kind in ("docker", "runsc"):
        need_engine()
        if kind == "runsc" and _gvisor_runtime() is None:
            pytest.skip("the Docker engine has no gVisor as a runtime, with the flag that boxes need")
    elif kind == "gvisor":
        need_gvisor()


def sandbox_config(kind: str, **settings: Any) -> SandboxConfig:
    """Return the configuration of boxes of one of KINDS."""
    if kind != "runsc":
        return SandboxConfig(kind=kind, **settings)
    return SandboxConfig(kind="docker", docker_runtime=_gvisor_runtime(), **settings)


@cache
def _gvisor_runtime() -> str | None:
    """Return the engine's runtime that is gVisor, with the flags that boxes need."""

    async def ask() -> EngineInfo:
        engine = await DockerEngine.connect(None, 3)
        try:
            return await engine.engine_info()
        finally:
            await engine.close()

    return next((name for name, ready in asyncio.run(ask()).gvisor.items() if ready), None)


def need_engine() -> None:
    if (reason := missing_engine()) is not None:
        pytest.skip(reason)


def need_gvisor() -> None:
    """Skip where gVisor is not installed; fail where it is required."""
    if (reason := missing_gvisor()) is not None:
        pytest.skip(reason)


@cache
def missing_gvisor() -> str | None:
    """Return why there are no gVisor boxes for tests; where there are, make their root folder."""
    try:
        installed_runsc(None)
        asyncio.run(build_root(ServiceConfig(), lambda _: None))
    except ServiceError as error:
        if os.environ.get("CI_REQUIRE_GVISOR") == "1":
            pytest.fail(f"gVisor is required here: {error.detail}")
        return error.detail
    return None


@dataclass
class Episode:
    """One instance in a box."""

    box: Sandbox
    instance_id: str
    step_index: int = 0

    async def send(self, op: Op, body: object = None, **meta) -> Frame:
        data = b"" if body is None else json.dumps(body).encode()
        meta = {"deadline_s": DEADLINE_S, **meta}
        return reply_or_raise(
            await self.box.request(Frame(op, 0, self.instance_id, meta, data), meta["deadline_s"] + 30)
        )

    async def create(self, spec=PROBE, task=None) -> dict:
        meta = {"seed": 1, "max_steps": 1_000_000}
        body = {"environment": spec.name, "task_id": "t", "task": task or {}, "params": {}}
        return json.loads((await self.send(Op.CREATE, body, **meta)).body)

    async def say(self, content: str, deadline_s: float = DEADLINE_S) -> dict:
        """One step; the step's result."""
        body = {"instance_id": self.instance_id, "message": {"role": "assistant", "content": content}}
        answer = await self.send(Op.STEP, body, step_index=self.step_index, deadline_s=deadline_s)
        self.step_index += 1
        return json.loads(answer.body)

    async def run(self, deadline_s: float = DEADLINE_S, **order) -> dict:
        """Agent code, as the probe world takes it; the execution."""
        result = await self.say(json.dumps(order), deadline_s)
        return json.loads(result["observation"]["messages"][0]["content"])

    async def python(self, source: str) -> str:
        return (await self.run(python=source))["output"]

    async def evaluate(self, answer: str = "") -> dict:
        grading = {"answer": answer}
        return json.loads((await self.send(Op.EVALUATE, {"params": {}, "grading": grading})).body)

    async def release(self) -> bool:
        return (await self.send(Op.RELEASE)).meta["clean"]


async def episode(box, spec=PROBE, name="i", task=None) -> Episode:
    """A started episode."""
    started = Episode(box, name)
    await started.create(spec, task)
    return started
