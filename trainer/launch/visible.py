"""Which GPUs of this machine a run takes when it says nothing of GPUs.

Decided once, by the command that starts the run: everything else goes by the configuration, which is recorded
in the run's folder, so that a run that is resumed has the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.engines.build import installed_build
from trainer.errors import ConfigError

from .folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainer.config import RunConfig

__all__ = ["leaves_gpus_open", "on_visible_gpus", "usable_gpus"]

_WHOLE: Mapping[str, object] = {"learner.gpus": 1.0, "engine.gpus": 1.0}
_SHARED: Mapping[str, object] = {"learner.gpus": 0.5, "engine.gpus": 0.5, "engine.gpu_memory_share": 0.4}
_CHOSEN_BY = frozenset({"learner.gpus", "engine.gpus", "engine.device"})
"""A run that sets one of them has decided."""


def usable_gpus() -> int:
    """GPUs that torch sees, where the vLLM that is installed is the build for GPUs; else 0."""
    if installed_build() != "cuda":
        return 0
    import torch  # takes seconds, and is needed with the CUDA build alone

    return torch.cuda.device_count()


def leaves_gpus_open(config: RunConfig) -> bool:
    """Whether neither the run's file nor words say where learner and engines run.

    Machines of a named cluster are not seen from here: a run on one has to say.
    """
    return config.ray.address is None and not any(_is_set(config, name) for name in _CHOSEN_BY)


def on_visible_gpus(config: RunConfig, gpus: int, *, resume: bool = False) -> tuple[RunConfig, str | None]:
    """The run on so many GPUs of this machine, and a sentence about it; as it is where it has decided.

    Each worker and each engine has a GPU of its own if there are enough; else a worker and an engine share
    one. A run that is resumed takes what it had.
    """
    if not leaves_gpus_open(config):
        return config, None
    if resume and (before := _recorded(config)) is not None:
        had = {name: _value(before, name) for name in (*_CHOSEN_BY, *_SHARED)}
        return _with(config, had), None
    if not gpus:
        return config, None
    wanted = config.learner.most_workers + config.engine.count * config.engine.tensor_parallel
    chosen = _WHOLE if wanted <= gpus else _SHARED
    placed = _with(config, chosen)
    taken = " ".join(f"{name}={_value(placed, name):g}" for name in chosen)
    there = "1 GPU is" if gpus == 1 else f"{gpus} GPUs are"
    return placed, f"{there} visible, and the run says nothing of GPUs: it takes {taken}"


def _recorded(config: RunConfig) -> RunConfig | None:
    """What the run began with; None without a run, which is told where its folder is opened."""
    try:
        return RunFolder.config_of(config.folder)
    except ConfigError:
        return None


def _with(config: RunConfig, values: Mapping[str, object]) -> RunConfig:
    """The run with these settings; what it sets itself stays."""
    for name, value in values.items():
        if not _is_set(config, name):
            branch, _, key = name.partition(".")
            own = getattr(config, branch).model_copy(update={key: value})
            config = config.model_copy(update={branch: own})
    return config


def _is_set(config: RunConfig, name: str) -> bool:
    branch, _, key = name.partition(".")
    return key in getattr(config, branch).model_fields_set


def _value(config: RunConfig, name: str) -> object:
    branch, _, key = name.partition(".")
    return getattr(getattr(config, branch), key)
