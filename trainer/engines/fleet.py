"""Start the engines of a run as Ray actors, and find them by name."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from trainer.errors import EngineError, Stalled

from .actor import CONTROL, EngineActor, RayEngine
from .options import engine_options
from .placement import actor_options, engine_resources

if TYPE_CHECKING:
    from trainer.config.parts import EngineSettings
    from trainer.weight_sync.choice import Device

    from .placement import Reservation


IN_FLIGHT = 4096
"""Concurrent requests of one actor; vLLM queues those that it has no room for."""
CONTROLS = 64


def engine_names(settings: EngineSettings) -> tuple[str, ...]:
    """Return the names of a run's engine actors."""
    return tuple(f"{settings.name}-engine-{index}" for index in range(settings.engine.count))


def start_engines(
    settings: EngineSettings,
    model: Path,
    device: Device,
    reserved: Reservation | None = None,
) -> tuple[RayEngine, ...]:
    """Start all engines, and wait until they answer.

    Args:
        settings: Settings of the engines.
        model: Folder of the model.
        device: What they run on.
        reserved: The result of ``reserve``; without it Ray places them anywhere.

    Raises:
        EngineError: an engine does not start.
        Stalled: an engine takes longer than ``engine.start_timeout_s``.
    """
    options = engine_options(settings, model, device)
    anywhere = actor_options(engine_resources(settings.engine, device))
    remote: Any = ray.remote(concurrency_groups={CONTROL: CONTROLS})(EngineActor)  # type: ignore[call-overload]
    engines = []
    for index, name in enumerate(engine_names(settings)):
        actor = remote.options(
            name=name,
            get_if_exists=True,
            max_restarts=settings.engine.restarts,
            max_concurrency=IN_FLIGHT,
            runtime_env={"env_vars": options.environment()},
            **(reserved.options(index) if reserved else anywhere),
        ).remote(options, reserved.neighbours(index) if reserved else None)
        engines.append(RayEngine(name, actor))
    wait_for(engines, settings.engine.start_timeout_s)
    return tuple(engines)


def sleep_engines(engines: Sequence[RayEngine], timeout_s: float) -> None:
    """Have all engines sleep before the learner starts on their GPUs. Raises EngineError and Stalled."""
    for name, answer in [(engine.name, engine.enter_sleep("keep")) for engine in engines]:
        try:
            answer.result(timeout=timeout_s)
        except FutureTimeout as error:
            raise Stalled(f"{name} did not sleep within {timeout_s:g} s") from error


def wait_for(engines: list[RayEngine], timeout_s: float) -> None:
    """Wait until every engine has answered. Raises EngineError and Stalled."""
    answers = [(engine.name, engine.get_status()) for engine in engines]
    for name, answer in answers:
        try:
            answer.result(timeout=timeout_s)
        except FutureTimeout as error:
            raise Stalled(f"{name} did not answer within {timeout_s:g} s of its start") from error
        except EngineError as error:
            raise EngineError(f"{name} did not start: {error}") from error


def engine_handles(settings: EngineSettings, namespace: str | None = None) -> tuple[RayEngine, ...]:
    """Return handles of a run's engines, from any process of the cluster.

    Raises:
        EngineError: an engine does not exist.
    """
    try:
        return tuple(RayEngine(name, ray.get_actor(name, namespace)) for name in engine_names(settings))
    except ValueError as error:
        raise EngineError(f"the engines of run {settings.name} do not exist: {error}") from error
