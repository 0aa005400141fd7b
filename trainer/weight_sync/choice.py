"""Resolve settings that may be ``auto``: the engines' device and the transport of weight syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from trainer.config.parts import Hardware


Device: TypeAlias = Literal["cpu", "cuda"]
TransportKind: TypeAlias = Literal["shared_file", "nccl", "ipc", "adapter"]


def resolve_device(hardware: Hardware) -> Device:
    """Return the engines' device: with ``auto``, the learner's.

    The result depends on settings only, so that driver and workers on all machines agree.
    """
    if hardware.engine.device == "auto":
        return "cuda" if hardware.learner.gpus > 0 else "cpu"
    return hardware.engine.device


def resolve_transport(hardware: Hardware, device: Device) -> TransportKind:
    """Return the transport of the weights, chosen by the GPUs where ``sync.transport`` is ``auto``."""
    if hardware.sync.transport != "auto":
        return hardware.sync.transport
    if device == "cpu" or hardware.learner.gpus == 0:
        # nccl and ipc have a GPU at both ends. Adapters work on a CPU too, at a quarter of the speed.
        return "shared_file"
    if hardware.learner.lora is not None:
        return "adapter"
    return "ipc" if shares_gpus(hardware, device) else "nccl"


def shares_gpus(hardware: Hardware, device: Device) -> bool:
    """Return whether each worker of the learner shares its GPU with an engine's worker.

    They share where their shares add up to at most one; Ray counts shares in ten thousandths.
    """
    learner, engine = hardware.learner.gpus, hardware.engine.gpus
    if device == "cpu" or not hardware.steps or not learner or not engine:
        return False
    return round(learner + engine, 4) <= 1
