"""Held-out success before and after each method that learns from recorded data.

    python -m tests.benchmarks.offline_methods --seeds 1 --groups 64 --steps 60

All methods start from one model and its episodes. For each seed, the demo's model is fine-tuned on corrupted
demonstrations, and the groups of one step are played with it. All methods learn from these episodes for the
same number of updates, and are evaluated on the same held-out tasks.
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks import training_runs as bench
from trainer.config.recorded import RecordedFiles
from trainer.recorded.episode_rows import write_episodes
from trainer.recorded.preference_rows import write_completions, write_preferences
from trainer.recorded.reading import read_episodes
from trainer.recorded.types import LabelledCompletion, Preference, RecordedEpisode

SPLIT = "arithmetic_test_easy"
TEMPERATURE = 0.5
"""Of the weights of weighted behaviour cloning: softmax of the scores of a task's episodes."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method: the stage, and the file that it learns from."""

    kind: str
    data: str
    rate: float
    """Learning rate."""
    loss: str = ""

    def stage(self, folder: Path, steps: int, batch: int) -> str:
        """The list of stages of its run file."""
        loss = f", loss = {self.loss}" if self.loss else ""
        optimizer = f'{{ learning_rate = {self.rate}, schedule = "linear", warmup_steps = 10 }}'
        data = f'{{ files = ["{folder / self.data}"] }}'
        return (
            f'stages=[{{ kind = "{self.kind}", data = {data}, steps = {steps}, batch = {batch}, '
            f'overlong = "drop", optimizer = {optimizer}{loss} }}]'
        )


METHODS: Mapping[str, Method] = {
    "sft, filtered": Method("sft", "solved.jsonl", 5e-4),
    "sft, weighted": Method("sft", "weighted.jsonl", 5e-4),
    "dpo": Method("preferences", "pairs.jsonl", 5e-5, '{ kind = "dpo", beta = 0.1, sft_weight = 1.0 }'),
    "ipo": Method("preferences", "pairs.jsonl", 5e-5, '{ kind = "ipo", beta = 0.5, sft_weight = 1.0 }'),
    "kto": Method(
        "preferences", "labels.jsonl", 5e-5, '{ kind = "kto", beta = 0.1, desirable_weight = 3.0 }'
    ),
    "orpo": Method("preferences", "pairs.jsonl", 2e-4, '{ kind = "orpo", odds_weight = 0.5 }'),
}


def main() -> int:
    """Measure, and print the table and its JSON."""
    parser = bench.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from --seed on")
    parser.add_argument("--groups", type=int, default=128, help="tasks that episodes are collected of")
    parser.add_argument("--episodes", type=int, default=8, help="episodes of each of them")
    parser.add_argument("--steps", type=int, default=100, help="updates of each method")
    parser.add_argument("--batch", type=int, default=32, help="rows of an update")
    parser.add_argument("--held-out", type=int, default=200, help="held-out tasks")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args()
    began = time.monotonic()
    results: list[dict[str, object]] = []
    with bench.place(options) as at:
        for seed in range(options.seed, options.seed + options.seeds):
            seeded = replace(at, seed=seed)
            model = bench.warm_model(seeded, options.warm_steps)
            results.append(
                {
                    "seed": seed,
                    "method": "before",
                    **_success(seeded, f"before-{seed}", model, options.held_out),
                }
            )
            folder = data_folder(seeded, model, options.groups, options.episodes)
            counts = _collect(seeded, model, folder, options.groups, options.episodes)
            bench.tell(f"seed {seed}: {counts}")
            for name in options.methods:
                results.append({"seed": seed, "method": name, **_run(seeded, name, model, folder, options)})
                bench.tell(json.dumps(results[-1]))
    figures = {
        "options": {
            name: getattr(options, name)
            for name in ("groups", "episodes", "steps", "batch", "held_out", "seeds")
        },
        "runs": results,
        "table": _summary(results),
    }
    bench.tell(bench.table(_shown(figures["table"])))
    bench.finish("offline methods", figures, began, options.output)
    return 0


def data_folder(at: bench.Place, model: Path, groups: int, episodes: int) -> Path:
    """The folder of the data of a seed: another one for each model and number of episodes."""
    made = bench.digest(model.parent.name, groups, episodes, at.words)
    return at.root / f"data-{at.seed}-{made}"


def _collect(at: bench.Place, model: Path, folder: Path, groups: int, episodes: int) -> dict[str, int]:
    """Play one step's groups with the model, and write the files of all methods; return their rows."""
    name = f"collected-{at.seed}"
    if not (folder / "labels.jsonl").exists():
        words = [
            *bench.begins_with(model),
            "steps=1",
            f"rollout.groups={groups}",
            f"rollout.group_size={episodes}",
        ]
        # The episodes of the first step are all sampled with the initial weights.
        bench.trainer(
            "train", at, name, [*words, "checkpoint.export=false", "tracking.trajectories=all"], "--force"
        )
        recorded = read_episodes(RecordedFiles(files=(at.root / name / "trajectories.jsonl",)))
        folder.mkdir(exist_ok=True)
        graded = [each for each in recorded if each.score is not None]
        write_episodes(folder / "solved.jsonl", [each for each in graded if each.success])
        write_episodes(folder / "weighted.jsonl", _weighted(graded))
        write_preferences(folder / "pairs.jsonl", _pairs(graded))
        write_completions(folder / "labels.jsonl", map(_label, graded))
    files = ("solved", "weighted", "pairs", "labels")
    return {file: len((folder / f"{file}.jsonl").read_text().splitlines()) for file in files}


def _by_task(episodes: Iterable[RecordedEpisode]) -> list[list[RecordedEpisode]]:
    tasks: dict[tuple[str, str], list[RecordedEpisode]] = defaultdict(list)
    for each in episodes:
        tasks[each.task].append(each)
    return list(tasks.values())


def _weighted(episodes: Iterable[RecordedEpisode]) -> list[RecordedEpisode]:
    """Weights by a softmax of the scores of a task, 1 on average."""
    found = []
    for group in _by_task(episodes):
        powers = [math.exp((each.score or 0.0) / TEMPERATURE) for each in group]
        found += [
            replace(each, weight=len(group) * power / sum(powers))
            for each, power in zip(group, powers, strict=True)
        ]
    return found


def _pairs(episodes: Iterable[RecordedEpisode]) -> list[Preference]:
    """Solved episodes with unsolved ones of the same task, each episode once."""
    found = []
    for group in _by_task(episodes):
        solved = [each for each in group if each.success]
        failed = [each for each in group if not each.success]
        found += [
            Preference(good.prompt, good.completion, bad.completion, good.origin)
            for good, bad in zip(solved, failed, strict=False)
            if good.prompt == bad.prompt and good.completion != bad.completion
        ]
    return found


def _label(episode: RecordedEpisode) -> LabelledCompletion:
    return LabelledCompletion(episode.prompt, episode.completion, bool(episode.success), episode.origin)


def _run(at: bench.Place, name: str, model: Path, folder: Path, options: object) -> dict[str, object]:
    steps, batch, held_out = (getattr(options, each) for each in ("steps", "batch", "held_out"))
    method = METHODS[name]
    run = f"{name.replace(', ', '-')}-{at.seed}"
    began = time.monotonic()
    words = [
        *bench.begins_with(model),
        "steps=0",
        method.stage(folder, steps, batch),
        f"checkpoint.every={steps}",
    ]
    bench.trainer("train", at, run, words, "--force")
    minutes = (time.monotonic() - began) / 60
    metrics = bench.Steps.of(at.root / run).metrics
    last = {
        key: metrics[-1][key]
        for key in ("loss/sft", "loss/preferences", "preferences/accuracy", "preferences/margin")
        if key in metrics[-1]
    }
    learned = sum(each["time/update"] + each.get("time/annotate", 0.0) for each in metrics)
    success = _success(at, f"after-{run}", at.root / run / "model", held_out)
    return {**success, "minutes": round(minutes, 2), "learning_s": round(learned, 1), "last": last}


def _success(at: bench.Place, name: str, model: Path, limit: int) -> dict[str, float]:
    words = [f'evaluation.splits=["{SPLIT}"]', f"evaluation.limit={limit}"]
    out = bench.trainer("evaluate", at, name, words, "--model", str(model), "--json")
    return {"success": json.loads(out)["success_rate"]}


def _summary(results: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Mean over seeds of each method, with a 95% interval by Student's t."""
    rows: list[dict[str, object]] = []
    for method in dict.fromkeys(str(each["method"]) for each in results):
        mine = [each for each in results if each["method"] == method]
        values = [float(str(each["success"])) for each in mine]
        mean = sum(values) / len(values)
        minutes = [float(str(each["minutes"])) for each in mine if "minutes" in each]
        rows.append(
            {
                "method": method,
                "seeds": len(values),
                "success": round(mean, 4),
                "half_width": bench.half_width(values),
                "minutes": round(sum(minutes) / len(minutes), 2) if minutes else None,
            }
        )
    return rows


def _shown(rows: object) -> list[list[str]]:
    assert isinstance(rows, list)
    return [
        ["method", "success", "95%", "minutes"],
        *(
            [
                row["method"],
                f"{row['success']:.1%}",
                f"± {row['half_width']:.1%}" if row["half_width"] is not None else "",
                str(row["minutes"] or ""),
            ]
            for row in rows
        ),
    ]


if __name__ == "__main__":
    raise SystemExit(bench.ended(main))
