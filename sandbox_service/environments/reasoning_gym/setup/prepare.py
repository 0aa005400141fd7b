"""Write the environment's tasks: ``prepare.py PACKAGES DATA``.

``datasets.json``  datasets with category, levels and their configurations; what is left out, and why
``tasks.jsonl``    the prepared tasks: id, split and answer
``entries.jsonl``  entries of datasets whose questions take long to make, by the task's id
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .drawing import do_without_drawing

Json = dict[str, Any]
_DIGEST_CHARACTERS = 8
PROCESSES = 8
"""Most datasets that are prepared at a time; each is limited by its CPU time, not by the clock."""


@dataclass
class PreparedDataset:
    """A dataset's description, and its lines of the files."""

    name: str
    category: str
    levels: dict[str, Json] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    """Level to the reason why it is not offered."""
    tasks: list[Json] = field(default_factory=list)
    entries: list[Json] = field(default_factory=list)

    def __str__(self) -> str:
        rejected = f"; not offered: {self.rejected}" if self.rejected else ""
        return f"{self.name}: {', '.join(self.levels) or 'left out'}{rejected}"


def digest_of(dataset: str, config: Json) -> str:
    """Return what names a configuration in the ids of tasks; the package's version has the defaults."""
    text = json.dumps([version("reasoning-gym"), dataset, config], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def main(data: Path) -> None:
    """Write everything. A dataset without a level that can be proven is left out, with the reason."""
    from reasoning_gym.factory import DATASETS

    from .left_out import LEFT_OUT

    if unknown := set(LEFT_OUT) - {*DATASETS, "composite"}:
        raise SystemExit(f"reasoning_gym has no dataset {min(unknown)!r}, which is to be left out")
    names = sorted(set(DATASETS) - set(LEFT_OUT))
    described: Json = {}
    with (
        # Children have what do_without_drawing put in place.
        multiprocessing.get_context("fork").Pool(min(PROCESSES, os.cpu_count() or 1)) as processes,
        (data / "tasks.jsonl").open("w", encoding="utf-8") as tasks,
        (data / "entries.jsonl").open("w", encoding="utf-8") as entries,
    ):
        for made in processes.imap(_dataset, names):
            tasks.writelines(json.dumps(line) + "\n" for line in made.tasks)
            entries.writelines(json.dumps(line) + "\n" for line in made.entries)
            described[made.name] = {
                "category": made.category,
                "levels": made.levels,
                "rejected": made.rejected,
            }
            sys.stdout.write(f"{made}\n")
            sys.stdout.flush()
    rejected = {
        name: "; ".join(sorted(set(each["rejected"].values())))
        for name, each in described.items()
        if not each["levels"]
    }
    offered = {name: each for name, each in described.items() if name not in rejected}
    content = {"datasets": offered, "left_out": {**LEFT_OUT, **rejected}}
    (data / "datasets.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def _dataset(name: str) -> PreparedDataset:
    """Return a dataset with the tasks of all levels that can be proven."""
    from reasoning_gym.factory import DATASETS

    from .levels import candidates
    from .pools import LevelError, Pool, make_pool

    made = PreparedDataset(name, category=DATASETS[name][0].__module__.split(".")[1])
    asked: set[str] = set()
    for level, configs in candidates(name).items():
        for config in configs:
            digest = digest_of(name, config)
            if digest in {each["digest"] for each in made.levels.values()}:
                continue
            try:
                pool: Pool = make_pool(name, config, asked)
            except LevelError as error:
                made.rejected[level] = str(error)
                continue
            prefix = f"{name}/{level}-{digest}"
            for task in pool.tasks:
                task_id = f"{prefix}/{task['seed']}/{task['index']}"
                made.tasks.append({"id": task_id, "split": task["split"], "answer": task["answer"]})
                if "entry" in task:
                    made.entries.append({"id": task_id, "entry": task["entry"]})
            made.levels[level] = {
                "digest": digest,
                "config": config,
                "floor": pool.floor,
                "fixed": pool.fixed,
                "milliseconds": round(1000 * pool.seconds, 1),
                "repeated": round(pool.repeated, 3),
            }
            made.rejected.pop(level, None)
            break
    return made


if __name__ == "__main__":
    do_without_drawing(Path(sys.argv[1]))
    main(Path(sys.argv[2]))
