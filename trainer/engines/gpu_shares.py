"""Check from settings alone whether the shares of GPUs can be placed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainer.errors import ConfigError
from trainer.weight_sync.choice import resolve_transport, shares_gpus

if TYPE_CHECKING:
    from trainer.config.parts import Hardware
    from trainer.weight_sync.choice import Device


def check_shares(hardware: Hardware, device: Device) -> None:
    """Raise ConfigError with the first of ``share_problems`` or with ``sleep_problem``."""
    for sentence in share_problems(hardware, device):
        raise ConfigError(sentence)
    if (why := sleep_problem(hardware, device)) is not None:
        raise ConfigError(why)


def share_problems(hardware: Hardware, device: Device) -> Iterator[str]:
    """Yield one sentence for each reason why learner and engines cannot have their shares."""
    if device == "cpu" or not hardware.steps or not hardware.learner.gpus:
        return
    if shares_gpus(hardware, device):
        yield from _beside_each_other(hardware, device)
    else:
        yield from _apart(hardware)


def sleep_problem(hardware: Hardware, device: Device) -> str | None:
    """Return why engines cannot sleep (``engine.sleep``); None if they can, or need not."""
    engine = hardware.engine
    if not engine.sleep or not hardware.steps:
        return None
    if device == "cpu":
        return "engine.sleep frees a GPU's memory, and vLLM does not support it on CPUs: leave it out"
    if not shares_gpus(hardware, device):
        return (
            "engine.sleep frees GPUs that learner and engines share, and they have GPUs of their own: leave "
            "it out, or set learner.gpus and engine.gpus to shares, such as 0.5 and 0.5"
        )
    if engine.in_process:
        return "engine.sleep needs the model in a process of its own: set engine.in_process=false"
    if engine.keep_cache:
        return "engine.sleep frees the cache that engine.keep_cache keeps: set only one of them"
    return None


def _beside_each_other(hardware: Hardware, device: Device) -> Iterator[str]:
    transport = resolve_transport(hardware, device)
    parts, workers = hardware.engine.count * hardware.engine.tensor_parallel, hardware.learner.least_workers
    if transport == "nccl":
        yield (
            "sync.transport=nccl needs separate GPUs for learner and engines, since NCCL takes one process a "
            "GPU, and learner.gpus and engine.gpus share them: set sync.transport=ipc"
        )
    if transport == "ipc" and parts > workers:
        yield (
            f"the engines take {parts} GPUs and share them with {workers} workers, so that {parts - workers} "
            "would get no weights by sync.transport=ipc: lower engine.count, or raise learner.workers"
        )


def _apart(hardware: Hardware) -> Iterator[str]:
    learner, engine = hardware.learner, hardware.engine
    share = 1.0 if engine.gpus is None else engine.gpus
    if 0 < share < 1 and learner.gpus < 1:
        yield (
            f"learner.gpus={learner.gpus:g} and engine.gpus={share:g} add up to more than a GPU: lower one, "
            "so that they share each GPU, or set both to 1 for GPUs of their own"
        )
    elif 0 < share < 1 and engine.count * engine.tensor_parallel > 1:
        yield (
            f"engine.gpus={share:g} would put engines on one GPU, where each needs its own: "
            "set engine.gpus=1, or learner.gpus to the rest, so that learner and engines share GPUs"
        )
    elif learner.gpus <= 0.5 and learner.most_workers > 1:
        yield (
            f"learner.gpus={learner.gpus:g} would put two workers on one GPU, and NCCL takes one process a "
            "GPU: set learner.gpus=1, or engine.gpus to the rest, so that learner and engines share GPUs"
        )
