"""The engines of a run as Ray actors: their resources, their start, and finding them by name."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import GetTimeoutError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from trainer.errors import EngineError, Stalled

from .engine_actor import CONTROL, EngineActor, RayEngine
from .engine_options import engine_options

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.config.run import RunConfig
    from trainer.published import Device

__all__ = ["engine_handles", "engine_names", "reserve", "start_engines"]

IN_FLIGHT = 4096
"""Requests at a time that wait in one actor; vLLM queues what it has no room for."""
CONTROLS = 64


def engine_names(config: RunConfig) -> tuple[str, ...]:
    """Names of a run's engine actors."""
    return tuple(f"{config.name}-engine-{index}" for index in range(config.engine.count))


def bundle(config: RunConfig, device: Device) -> dict[str, float]:
    """What Ray sets aside for one engine; tensor-parallel workers share a machine."""
    resources = {"CPU": float(config.engine.cpus)}
    if device == "cuda":
        share = 1.0 if config.engine.gpus is None else float(config.engine.gpus)
        resources["GPU"] = share * config.engine.tensor_parallel
    return {name: amount for name, amount in resources.items() if amount > 0}


def reserve(config: RunConfig, device: Device) -> Any:  # noqa: ANN401 - Ray's placement groups have no type
    """A placement group with a bundle for each engine, before the learner takes what is free.

    Raises:
        EngineError: the cluster has no room for it within ``engine.start_timeout_s``.
    """
    wanted = bundle(config, device)
    group = placement_group([wanted] * config.engine.count, strategy="PACK")
    try:
        ray.get(group.ready(), timeout=config.engine.start_timeout_s)
    except GetTimeoutError as error:
        remove_placement_group(group)
        raise EngineError(
            f"there is no room in the cluster for {config.engine.count} engines of {wanted}"
        ) from error
    return group


def start_engines(
    config: RunConfig,
    model: Path,
    device: Device,
    group: Any = None,  # noqa: ANN401 - Ray's placement groups have no type
) -> tuple[RayEngine, ...]:
    """Start all engines, and wait until they answer.

    Args:
        config: The run.
        model: Folder of the model.
        device: What they run on.
        group: A placement group of ``reserve``; without one Ray places them anywhere.

    Raises:
        EngineError: an engine does not start; says why.
        Stalled: it takes longer than ``engine.start_timeout_s``.
    """
    options = engine_options(config, model, device)
    resources = bundle(config, device)
    remote: Any = ray.remote(concurrency_groups={CONTROL: CONTROLS})(EngineActor)  # type: ignore[call-overload]
    engines = []
    for index, name in enumerate(engine_names(config)):
        actor = remote.options(
            name=name,
            get_if_exists=True,
            num_cpus=resources.get("CPU", 0),
            num_gpus=resources.get("GPU", 0),
            max_restarts=config.engine.restarts,
            max_concurrency=IN_FLIGHT,
            runtime_env={"env_vars": options.environment()},
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, index) if group else None,
        ).remote(options)
        engines.append(RayEngine(name, actor))
    wait_for(engines, config.engine.start_timeout_s)
    return tuple(engines)


def wait_for(engines: list[RayEngine], timeout_s: float) -> None:
    """Until every engine has answered. Raises EngineError and Stalled."""
    answers = [(engine.name, engine.facts()) for engine in engines]
    for name, answer in answers:
        try:
            answer.result(timeout=timeout_s)
        except FutureTimeout as error:
            raise Stalled(f"{name} did not answer within {timeout_s:g} s of its start") from error
        except EngineError as error:
            raise EngineError(f"{name} did not start: {error}") from error


def engine_handles(config: RunConfig, namespace: str | None = None) -> tuple[RayEngine, ...]:
    """The run's engines, wherever in the cluster one asks.

    Raises:
        EngineError: there are none of that name.
    """
    try:
        return tuple(RayEngine(name, ray.get_actor(name, namespace)) for name in engine_names(config))
    except ValueError as error:
        raise EngineError(f"the engines of run {config.name} are not there: {error}") from error
