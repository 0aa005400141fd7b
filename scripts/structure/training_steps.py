"""Train the demo's model for a few steps in a traced tree, and note when each step ended."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

from .commands import PathsError, Running, deadline, wait_for
from .service_calls import running_service

RUN_FILE = "cpu_demo.toml"
ENVIRONMENT = "code"
"""Its tasks."""
STEPS, SFT_STEPS = 6, 2
"""Steps that are measured, and those of the fine-tuning before them."""
RUN_S = 1500.0
SETTINGS = (
    f"steps={STEPS}",
    "name=traced",
    "rollout.groups=2",
    "rollout.group_size=4",
    f"warm_start.steps={SFT_STEPS}",
    "warm_start.batch=4",
    "evaluation.splits=[]",
    "tracking.progress=false",
    "tracking.report=false",
)


def training_windows(running: Running, untraced: Running, folder: Path) -> list[tuple[int, int]]:
    """Return the begin and end of each training step that is measured.

    The episodes are played in a service of the ``untraced`` tree, so that the trace is of the trainer alone.
    Raises PathsError if the training fails, or logged fewer steps.
    """
    files = sorted(running.tree.rglob(RUN_FILE))
    if not files:
        raise PathsError(f"{running.tree}: there is no {RUN_FILE}, the demo's run file")
    root, log = folder / "runs", folder / "training.log"
    # Metrics carry the time of the wall clock, records that of the monotonic one.
    apart = time.time_ns() - time.monotonic_ns()
    with running_service(untraced, folder, ENVIRONMENT, keyed=False) as (service, _):
        words = ["train", str(files[0]), "--force", f"root={root}", f"service.url={service.url}", *SETTINGS]
        with running.started("sandbox-trainer", words, log) as process:
            for _ in deadline(RUN_S):
                running.note_processes()
                if process.poll() is not None:
                    break
            wait_for(process, 0.0, log)
    ends = step_ends("".join(file.read_text(encoding="utf-8") for file in root.rglob("metrics.jsonl")))
    if len(ends) != SFT_STEPS + STEPS:
        raise PathsError(f"the training logged {len(ends)} steps, not {SFT_STEPS} and {STEPS}")
    moments = [int(seconds * 1e9) - apart for seconds in ends]
    return list(pairwise(moments[SFT_STEPS - 1 :]))


def step_ends(metrics: str) -> list[float]:
    """Return the time of each training step's line in a metrics.jsonl; other lines are left out."""
    ends: dict[int, float] = {}
    for line in metrics.splitlines():
        entry = json.loads(line)
        if any(name.startswith("time/") for name in entry["metrics"]):
            ends.setdefault(entry["step"], entry["time"])
    return [ends[step] for step in sorted(ends)]
