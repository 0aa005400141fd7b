"""Choose the GPUs of this machine for a run that does not configure any.

The command that starts the run decides once: everything else follows the configuration, which is recorded in
the run's folder, so that a resumed run gets the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer.capacity.machine import nvidia_driver
from trainer.engines.vllm_build import installed_build
from trainer.errors import ConfigError

from .folder import RunFolder

if TYPE_CHECKING:
    from trainer.config import RunConfig


_WHOLE: Mapping[str, object] = {"learner.gpus": 1.0, "engine.gpus": 1.0}
_SHARED: Mapping[str, object] = {"learner.gpus": 0.5, "engine.gpus": 0.5, "engine.gpu_memory_share": 0.4}
_CHOSEN_BY = frozenset({"learner.gpus", "engine.gpus", "engine.device"})
"""A run that sets one of these has chosen for itself."""


def usable_gpus() -> int:
    """Return the number of GPUs that torch sees if the installed vLLM is a GPU build; otherwise 0."""
    if installed_build() != "cuda":
        return 0
    import torch  # imported late: takes seconds, and only the CUDA build needs it

    return torch.cuda.device_count()


def leaves_gpus_open(config: RunConfig) -> bool:
    """Return whether neither the run file nor overrides set where learner and engines run.

    Machines of a named cluster are not visible from here, so a run on one has to be explicit.
    """
    return config.ray.address is None and not any(_is_set(config, name) for name in _CHOSEN_BY)


def on_visible_gpus(
    config: RunConfig, gpus: int, *, resume: bool = False, described: bool = False
) -> tuple[RunConfig, str | None]:
    """Return the run placed on this machine's GPUs and a notice; unchanged when it sets its own placement.

    Each worker and each engine gets a GPU of its own if there are enough; otherwise a worker and an engine
    share one. A resumed run keeps its recorded placement. The GPUs may be those of a machine that the user
    has ``described``.
    """
    if not leaves_gpus_open(config):
        return config, None
    if resume and (before := _recorded(config)) is not None:
        had = {name: _value(before, name) for name in (*_CHOSEN_BY, *_SHARED)}
        return _with(config, had), None
    if not gpus:
        return config, _left_out()
    wanted = config.learner.most_workers + config.engine.count * config.engine.tensor_parallel
    chosen = _WHOLE if wanted <= gpus else _SHARED
    placed = _with(config, chosen)
    taken = " ".join(f"{name}={_value(placed, name):g}" for name in chosen)
    number = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    visible = f"{number} {'is' if gpus == 1 else 'are'} visible"
    there = f"the described machine has {number}" if described else visible
    return placed, f"{there} and the run configures none: using {taken}"


def _left_out() -> str | None:
    """Return a notice for a machine with a GPU on which the build for CPUs is installed."""
    if installed_build() != "cpu" or nvidia_driver() is None:
        return None
    return (
        "this machine has an NVIDIA driver, but the installed build is for CPUs: the run uses no GPU; for "
        "the CUDA build, remove .venv and start again with ENGINE=vllm"
    )


def _recorded(config: RunConfig) -> RunConfig | None:
    """Return the recorded settings of the run; None without a run, which is reported when the folder is
    opened.
    """
    try:
        return RunFolder.config_of(config.folder)
    except ConfigError:
        return None


def _with(config: RunConfig, values: Mapping[str, object]) -> RunConfig:
    """Return the run with these settings; settings of its own take precedence."""
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
