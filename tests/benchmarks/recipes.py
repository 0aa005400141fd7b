"""Held-out success before and after each method's run file in deploy/runs, by seed.

    python -m tests.benchmarks.recipes --root var/recipes --recipes dpo ppo --seeds 3 -o recipes.json

Every run is the run file as it is, with a seed: the model's initial weights and warm start, tasks and
sampling differ between seeds. A recipe that needs another one's model is run after it. Runs are kept in
--root; one that has ended there with the same run file and settings is not repeated, so that an interrupted
benchmark goes on.
"""

import argparse
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from threading import Lock

from tests.benchmarks import training_runs as bench
from trainer.evaluate.sources import read_evaluation
from trainer.evolve.folder import EvolutionFolder
from trainer.evolve.records import Decision
from trainer.tracking.jsonl import read_metrics

RUNS = bench.REPOSITORY / "deploy/runs"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A run file, and the words that make it another method."""

    file: str
    """Its name in deploy/runs, without suffix."""
    words: tuple[str, ...] = ()
    command: str = "train"
    needs: str = ""
    """The recipe whose model it needs."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Settings that name a folder in the run of ``needs``."""
    watched: tuple[str, ...] = ()
    """Metrics whose means over the first and the last steps are reported."""


_LOCKS: dict[str, Lock] = defaultdict(Lock)
WINDOW = 5
"""Steps over which a metric is averaged at the start and at the end of a run."""
_COSTS = ("cost/failed_actions", "success/mean")
_PLAIN = "evolve.select.threshold=none"
RECIPES: Mapping[str, Recipe] = {
    "grpo": Recipe("cpu_demo"),
    "constrained": Recipe("constrained_cpu", watched=_COSTS),
    "constrained, without multiplier": Recipe(
        "constrained_cpu", ("algorithm.constraints.0.most=0",), watched=_COSTS
    ),
    "pipeline": Recipe("pipeline_cpu"),
    "distillation": Recipe(
        "distill_cpu", needs="grpo", models={"algorithm.distillation.teacher.path": "model"}
    ),
    "cloning": Recipe("cloning_cpu", (_PLAIN,), command="evolve"),
    "cloning, filtered": Recipe("cloning_cpu", command="evolve"),
    "cloning, weighted": Recipe(
        "cloning_cpu",
        (_PLAIN, 'evolve.train.method={ kind = "weighted", temperature = 0.5 }'),
        command="evolve",
    ),
    "cloning, ranked": Recipe("cloning_cpu", (_PLAIN, "evolve.select.per_task=1"), command="evolve"),
    "evolution": Recipe("evolve_cpu", command="evolve"),
    "self-evolution": Recipe(
        "self_evolution_cpu",
        command="evolve",
        needs="pipeline",
        models={"reward.learned.models.0": "reward_models/reward"},
    ),
    "mixture": Recipe("mixture_cpu"),
    "continual": Recipe("continual_cpu", watched=("evaluation/forgetting",)),
    "self-play": Recipe("self_play_cpu"),
    "dpo": Recipe("preferences_cpu"),
    "ipo": Recipe("preferences_cpu", ('stages.0.loss={ kind = "ipo", beta = 0.5, sft_weight = 1.0 }',)),
    "kto": Recipe(
        "preferences_cpu",
        ('stages.0.loss={ kind = "kto", beta = 0.1 }', "stages.0.optimizer.learning_rate=5e-5"),
    ),
    "orpo": Recipe("preferences_cpu", ('stages.0.loss={ kind = "orpo", odds_weight = 0.5 }',)),
}


def main() -> int:
    """Run what has not run yet, and print the table and its JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, required=True, help="folder of the runs, kept")
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--seeds", type=int, default=3, choices=range(1, 11), help="number, from seed 0 on")
    parser.add_argument("--at-once", type=int, default=1, help="runs at a time; minutes are then longer")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="words", help="setting of every run"
    )
    parser.add_argument("--output", "-o", type=Path, help="write the JSON to this file, too")
    options = parser.parse_args()
    began = time.monotonic()
    root: Path = options.root.absolute()
    (root / "logs").mkdir(parents=True, exist_ok=True)
    wanted = [(name, seed) for seed in range(options.seeds) for name in options.recipes]
    with ThreadPoolExecutor(options.at_once) as pool:
        try:
            rows = list(pool.map(lambda run: row(root, run[0], run[1], options.words), wanted))
        except KeyboardInterrupt:
            bench.tell("interrupted; the same command goes on after the runs that have ended")
            os._exit(130)  # a thread waits for each run, which is interrupted when that thread ends
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    table = summary(rows)
    bench.tell(bench.table(_shown(table)))
    chosen = {"seeds": options.seeds, "at_once": options.at_once, "set": options.words}
    bench.finish("recipes", {"options": chosen, "runs": rows, "table": table}, began, options.output)
    return 0


def row(root: Path, name: str, seed: int, words: Sequence[str]) -> dict[str, object]:
    """The figures of one run. Raises RunFailed."""
    run = run_name(name, seed, words)
    minutes = round(_ran(root, name, seed, words) / 60, 1)
    found = {"recipe": name, "seed": seed, **evaluated(root / run, RECIPES[name]), "minutes": minutes}
    bench.tell(json.dumps(found))
    return found


def run_file(recipe: Recipe) -> Path:
    """The run file of a recipe."""
    return RUNS / f"{recipe.file}.toml"


def run_name(name: str, seed: int, words: Sequence[str] = ()) -> str:
    """The name of a recipe's run: another one for each run file and settings, also of the run it needs."""
    recipe = RECIPES[name]
    needed = run_name(recipe.needs, seed, words) if recipe.needs else ""
    made = bench.digest(run_file(recipe).read_text(), recipe.words, words, needed)
    return f"{re.sub('[^a-z]+', '_', name)}-{seed}-{made}"


def _ran(root: Path, name: str, seed: int, words: Sequence[str]) -> float:
    """The seconds of a run, which is made if it has not ended yet. Raises RunFailed."""
    recipe, run = RECIPES[name], run_name(name, seed, words)
    settings = [f"root={root}", f"name={run}", f"seed={seed}", "tracking.progress=false"]
    if recipe.needs:
        _ran(root, recipe.needs, seed, words)
        needed = root / run_name(recipe.needs, seed, words)
        settings += [f"{setting}={needed / place}" for setting, place in recipe.models.items()]
    ended = root / f"{run}.seconds"
    with _LOCKS[run]:  # two recipes that need a third one make it once
        if not ended.exists():
            bench.tell(run)
            trainer = Path(sys.executable).with_name("sandbox-trainer")
            file = str(run_file(recipe))
            called = [str(trainer), recipe.command, file, *settings, *recipe.words, *words, "--force"]
            began = time.monotonic()
            bench.run(called, root / "logs" / f"{run}.log")
            ended.write_text(f"{time.monotonic() - began:.0f}\n", encoding="utf-8")
    return float(ended.read_text(encoding="utf-8"))


def evaluated(folder: Path, recipe: Recipe) -> dict[str, object]:
    """Held-out success before and after the method, and of each iteration of an evolution."""
    if recipe.command == "evolve":
        return _evolved(EvolutionFolder(folder))
    before, after = (read_evaluation(f"{folder}@{when}") for when in ("before", "after"))
    watched = {name: _first_and_last(folder, name) for name in recipe.watched}
    return {"before": before.success_rate, "after": after.success_rate, **watched}


def _first_and_last(folder: Path, metric: str) -> list[float]:
    found = [row[metric] for row in read_metrics(folder / "metrics.jsonl").values() if metric in row]
    return [round(fmean(found[:WINDOW]), 4), round(fmean(found[-WINDOW:]), 4)] if found else []


def _evolved(folder: EvolutionFolder) -> dict[str, object]:
    """Success of the base model and of the one that was kept last; an iteration without training keeps it."""
    success: list[float | None] = []
    kept = 0
    for iteration in folder.iterations():
        evaluation, decision = iteration.read_evaluation(), iteration.read(Decision)
        success.append(evaluation.success_rate if evaluation else success[kept])
        if decision is not None and decision.kept:
            kept = iteration.number
    return {"before": success[0], "after": success[kept], "iterations": success}


def summary(runs: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """By recipe: means over the seeds, a 95% interval of the change by Student's t, median minutes."""
    rows: list[dict[str, object]] = []
    for name in dict.fromkeys(str(each["recipe"]) for each in runs):
        mine = [each for each in runs if each["recipe"] == name]
        before, after, minutes = (
            [float(str(each[key])) for each in mine] for key in ("before", "after", "minutes")
        )
        changes = [last - first for first, last in zip(before, after, strict=True)]
        rows.append(
            {
                "recipe": name,
                "seeds": len(mine),
                "before": round(fmean(before), 4),
                "after": round(fmean(after), 4),
                "change": round(fmean(changes), 4),
                "half_width": bench.half_width(changes),
                "minutes": round(median(minutes), 1),
            }
        )
    return rows


def _shown(rows: Sequence[Mapping[str, object]]) -> list[list[str]]:
    head = ["recipe", "before", "after", "change", "95%", "minutes"]
    return [
        head,
        *(
            [
                str(row["recipe"]),
                *(f"{float(str(row[key])):.1%}" for key in ("before", "after", "change")),
                "" if row["half_width"] is None else f"± {float(str(row['half_width'])):.1%}",
                str(row["minutes"]),
            ]
            for row in rows
        ),
    ]


if __name__ == "__main__":
    raise SystemExit(bench.ended(main))
