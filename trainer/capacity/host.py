"""Estimate the host memory of each machine, by purpose."""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING

from trainer.weight_sync.choice import resolve_transport

from .machine import GIB

if TYPE_CHECKING:
    from trainer.config import Hardware, SandboxServiceConfig
    from trainer.update.memory import RankMemory
    from trainer.weight_sync.choice import Device

    from .engine_memory import EngineMemory
    from .machine import Machine


_MIB = 1 << 20
_WORKER = 3 * GIB // 2
"""A process with Ray, torch and transformers; 0.6 to 1.5 GB were measured."""
_ENGINE = 5 * GIB // 2
"""An engine's actor and its model processes, without the model; 1.2 to 2.5 GB were measured on a CPU."""
_DRIVER = 2 * GIB
"""The command, Ray's own processes, the batch actor and the service."""
_BOX = 64 * _MIB
"""A sandbox in use; its limit is higher."""
_BOXES = re.compile(r"pool\.max_boxes\s*=\s*(\d+)")
_LOADED = 2
"""A worker reads its part of the weights while it still has the part that it replaces."""


def boxes_of(service: SandboxServiceConfig) -> int:
    """Return the sandboxes of a service that the run starts, as far as its settings name a number."""
    return sum(int(number) for number in _BOXES.findall(" ".join(service.start)))


def host_memory(
    hardware: Hardware,
    learner: RankMemory,
    engine: EngineMemory,
    device: Device,
    machine: Machine,
    checkpoint: int,
    object_store: int,
    boxes: int,
) -> dict[str, int]:
    """Return the bytes on the machine that needs most.

    Args:
        hardware: settings of learner and engines.
        learner: memory of a worker.
        engine: memory of one GPU of an engine, or of an engine on a CPU.
        device: the engines' device.
        machine: one of the machines.
        checkpoint: bytes of a checkpoint in progress.
        object_store: bytes of Ray's object store, 0 where the run does not start Ray.
        boxes: sandboxes of the services that the run starts.
    """
    workers = ceil(hardware.learner.most_workers / machine.count)
    engines = ceil(hardware.engine.count / machine.count) if hardware.steps else 0
    on_gpu = hardware.learner.gpus > 0
    held = learner.host + (_LOADED * learner.weights if on_gpu else learner.total)
    asleep = hardware.engine.tensor_parallel * (engine.weights + engine.adapters) * hardware.engine.sleep
    copies = (
        hardware.learner.most_workers if hardware.learner.sharding == "ddp" else hardware.learner.replicas
    )
    transport = resolve_transport(hardware, device)
    copied = hardware.steps and (
        (transport == "shared_file" and on_gpu) or (transport in ("ipc", "nccl") and hardware.sync.recovery)
    )
    parts = {
        "learner": workers * (_WORKER + max(held, _LOADED * max(learner.weights, learner.teacher))),
        "weights for a snapshot": hardware.engine.tensor_parallel * engine.synced if copied else 0,
        "a checkpoint in progress": ceil(copies * checkpoint / machine.count),
        "engines": engines * (_ENGINE + (engine.total if device == "cpu" else 0)),
        "weights of sleeping engines": engines * asleep,
        "driver, Ray, batch actor and service": _DRIVER,
        "sandboxes": _BOX * boxes,
        "Ray's object store": object_store,
    }
    return {name: size for name, size in parts.items() if size}
