"""Make a few games with TextWorld's own generator and write them as tasks.

    python -I -S prepare.py PACKAGES DATA

Run once, after the install. Seeds are fixed. Each game is won once by its walkthrough, or the set-up fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

GAMES = (
    ("simple-1", "simple", "train", "tw-simple --rewards dense --goal detailed --seed 1"),
    ("cooking-1", "cooking", "train", "tw-cooking --recipe 1 --take 1 --seed 1"),
    ("cooking-2", "cooking", "train", "tw-cooking --recipe 2 --take 2 --go 6 --open --cook --seed 2"),
    ("coins-1", "coins", "train", "tw-coin_collector --level 5 --seed 1"),
    ("treasure-1", "treasure", "train", "tw-treasure_hunter --level 5 --seed 1"),
    ("simple-2", "simple", "test", "tw-simple --rewards balanced --goal brief --seed 2"),
    ("cooking-3", "cooking", "test", "tw-cooking --recipe 3 --take 3 --go 9 --open --cook --cut --seed 3"),
    ("coins-2", "coins", "test", "tw-coin_collector --level 15 --seed 2"),
)
"""Id, category, split, and the generator's arguments; two games are made at once."""


def make(packages: Path, data: Path, name: str, words: str) -> None:
    """Make one game: the program, and TextWorld's metadata."""
    command = [sys.executable, str(packages / "bin" / "tw-make"), *words.split()]
    output = ["--silent", "--format", "z8", "--output", str(data / f"{name}.z8")]
    settings = {**os.environ, "PYTHONPATH": str(packages), "PYTHONHASHSEED": "0"}
    subprocess.run([*command, *output], check=True, env=settings)
    (data / f"{name}.ni").unlink()


def walkthrough(path: Path) -> list[str]:
    """Return the actions that win a game, which is played to check them."""
    import textworld

    wanted = textworld.EnvInfos(max_score=True, won=True, extras=["walkthrough"])
    env = textworld.start(str(path), wanted)
    state = env.reset()
    actions = [str(action) for action in state["extra.walkthrough"]]
    for action in actions:
        state, _, _ = env.step(action)
    if not state.won or state.score != state.max_score:
        raise SystemExit(f"the walkthrough of {path.name} does not win it")
    return actions


def main(packages: Path, data: Path) -> None:
    """Write games and tasks."""
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(partial(make, packages, data, name, words)) for name, _, _, words in GAMES]:
            done.result()
    with (data / "tasks.jsonl").open("w", encoding="utf-8") as file:
        for name, category, split, _ in GAMES:
            task: dict[str, Any] = {
                "id": name,
                "category": category,
                "splits": [split, "all"],
                "task": {"game": name},
                "reference": walkthrough(data / f"{name}.z8"),
            }
            file.write(json.dumps(task) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
