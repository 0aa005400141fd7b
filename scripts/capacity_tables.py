"""Write the tables of the pages about large models, computed as ``sandbox-trainer plan`` does.

``python -m scripts.capacity_tables`` writes them; tests compare the pages with them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.capacity.machine import GIB, Machine
from trainer.capacity.placement import gpu_slots
from trainer.capacity.plan import capacity_plan
from trainer.config import RunConfig
from trainer.config.reading import read_run
from trainer.errors import ConfigError
from trainer.weight_sync.choice import resolve_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainer.capacity.plan import CapacityPlan

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "deploy" / "runs"
RUNS_PAGE = RUNS / "README.md"
SIZES_PAGE = ROOT / "docs" / "trainer" / "large_models.md"

RUNS_HEAD = "| GiB by `plan` |"
EVERY_RUN_HEAD = "| run | GPUs |"
SIZES_HEAD = "| model | GPUs |"

_MEMORY = 80 * GIB
_MOST = Machine(8, _MEMORY, count=2)
"""The machines of the largest run."""
_LARGER = ["model.path=Qwen/Qwen3-8B"]
_ONE_GPU = ["learner.sharding=fsdp2", "learner.offload=parameters"]

_MODELS = {
    "Qwen2.5-0.5B": "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen2.5-1.5B": "Qwen/Qwen2.5-1.5B-Instruct",
    "Qwen3-4B": "Qwen/Qwen3-4B-Instruct-2507",
    "Qwen2.5-7B": "Qwen/Qwen2.5-7B-Instruct",
    "Qwen3-8B": "Qwen/Qwen3-8B",
    "Qwen3-14B": "Qwen/Qwen3-14B",
}
_LADDER: dict[str, dict[str, object]] = {
    "none": {},
    "`offload=optimizer`": {"offload": "optimizer"},
    "`offload=parameters`": {"offload": "parameters"},
}
"""Changes that are tried in turn until the run fits."""
_TRAINED: tuple[dict[str, object], ...] = ({}, {"lora": {"rank": 32}})
"""All weights, or adapters."""


def run_rows() -> Iterator[str]:
    """Memory and disk of the run files for GPUs, by run."""
    for gpus in (1, 4, 8):
        cells = [f"`bfcl_{gpus}gpu`"]
        for words in ([], _LARGER + (_ONE_GPU if gpus == 1 else [])):
            plan = _plan(read_run(RUNS / f"bfcl_{gpus}gpu.toml", words), gpus)
            cells += [_gpu_sizes(plan), _gib(sum(plan.host.values())), _gib(sum(plan.storage.disk.values()))]
        yield _row(cells)


def every_run_rows() -> Iterator[str]:
    """GPUs, memory and disk of every run file, on as many GPUs as it takes."""
    for file in sorted(RUNS.glob("*.toml")):
        config = read_run(file)
        yield _row([f"`{file.stem}`", *_planned(config)])


def _planned(config: RunConfig) -> list[str]:
    """The cells of a run, or in their place why it cannot be planned."""
    teacher = config.algorithm.model_teacher
    if teacher is not None and teacher.path.startswith("var/"):
        return ["", f"not without its teacher, `{teacher.path}`", "", "", ""]
    try:
        gpus = len(gpu_slots(config.hardware, resolve_device(config.hardware), _MOST))
        machine = replace(_MOST, gpus=min(gpus, _MOST.gpus), count=max(1, ceil(gpus / _MOST.gpus)))
        plan = capacity_plan(config, machine)
    except ConfigError as error:
        return ["", f"not without its model: {error}", "", "", ""]
    if plan.problems:
        raise ValueError(f"{config.name} does not fit: {plan.problems}")
    sizes = (plan.host, plan.storage.shared_memory, plan.storage.disk)
    return [
        str(gpus),
        _gpu_sizes(plan) if gpus else "",
        *(f"{sum(each.values()) / GIB:.1f}" for each in sizes),
    ]


def size_rows() -> Iterator[str]:
    """Yield the sizes by model and number of GPUs: what fits with all weights, and with LoRA."""
    for name, path in _MODELS.items():
        for gpus in (1, 4, 8):
            cells = [name, str(gpus)]
            for base in _TRAINED:
                cells += _first_that_fits(path, gpus, base)
            yield _row(cells)


def _first_that_fits(path: str, gpus: int, base: dict[str, object]) -> list[str]:
    for more, settings in _LADDER.items():
        plan = _plan(sized_run(path, gpus, **base, **settings), gpus)
        if not plan.problems:
            return [more, _gpu_sizes(plan), _gib(sum(plan.host.values()))]
    return ["does not fit", "", ""]


def sized_run(path: str, gpus: int, **learner: object) -> RunConfig:
    """Return the run of the table: one GPU is shared, and of more a half trains and a half samples."""
    shared = gpus == 1
    here = {
        "workers": max(1, gpus // 2),
        "gpus": 0.6 if shared else 1,
        "sharding": "fsdp2",
        "layout": "packed",
        "gradient_checkpointing": True,
        "micro_batch_tokens": 16384,
    }
    engine = {"gpus": 0.4, "gpu_memory_share": 0.45} if shared else {}
    return RunConfig.model_validate(
        {
            "model": {"kind": "pretrained", "path": path},
            "rollout": {"max_context_tokens": 16384},
            "engine": {"count": max(1, gpus // 2), "eager": False, **engine},
            "learner": {**here, **learner},
        }
    )


def with_rows(page: str, head: str, rows: Iterator[str]) -> str:
    """Return the page, with the rows of the table that begins so."""
    found = re.search(rf"^{re.escape(head)}.*\n\|[-:|]+\n", page, re.MULTILINE)
    if found is None:
        raise ValueError(f"the page has no table that begins with {head}")
    rest = re.sub(r"\A(\|.*\n)*", "", page[found.end() :])
    return page[: found.end()] + "".join(f"{row}\n" for row in rows) + rest


def _plan(run: RunConfig, gpus: int) -> CapacityPlan:
    return capacity_plan(run, Machine(gpus, _MEMORY))


def _gpu_sizes(plan: CapacityPlan) -> str:
    sizes = ", ".join(_gib(group.total) for group in plan.groups)
    return sizes if len(plan.groups) > 1 else f"{sizes} together"


def _gib(size: int) -> str:
    return f"{size / GIB:.0f}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    for file, head, rows in (
        (RUNS_PAGE, RUNS_HEAD, run_rows()),
        (RUNS_PAGE, EVERY_RUN_HEAD, every_run_rows()),
        (SIZES_PAGE, SIZES_HEAD, size_rows()),
    ):
        file.write_text(with_rows(file.read_text(encoding="utf-8"), head, rows), encoding="utf-8")
