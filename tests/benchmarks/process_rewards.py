"""PPO with process rewards against PPO on the outcome alone: steps to a given success, by weight.

    python -m tests.benchmarks.process_rewards --seeds 3 --weights 0 0.25 0.5 -o rewards.json
    python -m tests.benchmarks.process_rewards --run deploy/runs/parts/games_cpu.toml --warm-steps 60

For each seed, the run file's model is fine-tuned on its demonstrations, the groups of one step are played
with it, and their steps are labelled by tracing the outcome back. With each weight (beta), the model then
learns by PPO from the success of episodes, which is known from the grade of the last turn alone (sums have
up to three turns, games up to ten): with weight 0 from that alone, otherwise with a process reward model of
these labels, refreshed while the policy moves. The success of a step is the mean over the last ``--window``
steps' episodes.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.benchmarks import training_runs as bench
from trainer.config.recorded import RecordedFiles
from trainer.config.step_labels import OutcomeRule
from trainer.recorded.reading import read_episodes
from trainer.step_labels.labelling import label_episodes
from trainer.step_labels.outcome import OutcomeLabeller

LOSS = 'algorithm.loss={ kind = "ppo", clip_low = 0.2, clip_high = 0.2 }'
ADVANTAGE = 'algorithm.advantage={ kind = "gae", lam = 0.95 }'
DISCOUNT = 0.9


def main() -> int:
    """Measure, and print the table and its JSON."""
    parser = bench.parser(__doc__)
    parser.add_argument("--run", type=Path, default=bench.DEMO, help="run file that all runs change")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from --seed on")
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.25, 0.5], help="values of beta")
    parser.add_argument("--groups", type=int, default=64, help="tasks whose episodes are labelled")
    parser.add_argument("--model-steps", type=int, default=60, help="updates of the process reward model")
    parser.add_argument("--steps", type=int, default=40, help="updates of the policy")
    parser.add_argument("--success", type=float, default=0.5, help="the success that is to be reached")
    parser.add_argument("--window", type=int, default=5, help="steps over which success is averaged")
    options = parser.parse_args()
    began = time.monotonic()
    runs: list[dict[str, object]] = []
    with bench.place(options, options.run) as at:
        for seed in range(options.seed, options.seed + options.seeds):
            seeded = replace(at, seed=seed)
            model = bench.warm_model(seeded, options.warm_steps)
            labels = labelled(seeded, model, options.groups)
            for weight in options.weights:
                words = [*bench.begins_with(model), *learning(labels, weight, options)]
                name = f"beta-{at.file.stem}-{weight:g}-{seed}"
                bench.trainer("train", seeded, name, words, "--force")
                found = figures(bench.Steps.of(at.root / name), options.success, options.window)
                runs.append({"seed": seed, "weight": weight, **found})
                bench.tell(json.dumps(runs[-1]))
    chosen = ("groups", "model_steps", "steps", "success", "window", "seeds", "warm_steps")
    given = {"run": options.run.stem, "set": options.words}
    report = {"options": {**given, **{name: getattr(options, name) for name in chosen}}, "runs": runs}
    bench.tell(bench.table(_shown(runs)))
    bench.finish("process rewards", report, began, options.output)
    return 0


def labels_file(at: bench.Place, model: Path, groups: int) -> Path:
    """The file of the labels of a seed: another one for each model and number of groups."""
    made = bench.digest(model.parent.name, groups, at.words)
    return at.root / f"labelled-{at.file.stem}-{at.seed}-{made}.jsonl"


def labelled(at: bench.Place, model: Path, groups: int) -> Path:
    """Play one step's groups with the model; the file of its episodes with labelled steps."""
    file = labels_file(at, model, groups)
    name = file.stem
    if not file.exists():
        words = [*bench.begins_with(model), "steps=1", f"rollout.groups={groups}", "checkpoint.export=false"]
        bench.trainer("train", at, name, [*words, "tracking.trajectories=all"], "--force")
        played = read_episodes(RecordedFiles(files=(at.root / name / "trajectories.jsonl",)))
        graded = [each for each in played if each.success is not None]
        labeller = OutcomeLabeller(OutcomeRule(discount=DISCOUNT), graded)
        asyncio.run(label_episodes(graded, labeller, file, {"discount": DISCOUNT}, concurrency=1))
    return file


def learning(labels: Path, weight: float, options: object) -> list[str]:
    """The words of a run: PPO, with a process reward of this weight."""
    steps, model_steps = (getattr(options, name) for name in ("steps", "model_steps"))
    words = [LOSS, ADVANTAGE, 'reward.outcome="success"', f"steps={steps}", f"checkpoint.every={steps}"]
    if not weight:
        return words
    stage = (
        f'{{ kind = "process_reward_model", name = "steps", data = {{ files = ["{labels}"] }}, '
        f'steps = {model_steps}, batch = 32, overlong = "drop", '
        'optimizer = { learning_rate = 5e-4, schedule = "cosine", warmup_steps = 5 } }'
    )
    refresh = f"{{ every = 5, episodes = 64, updates = 8, discount = {DISCOUNT} }}"
    process = f'{{ models = ["stage:steps"], weight = {weight}, baseline = 0.5, refresh = {refresh} }}'
    rl = f'{{ kind = "rl", steps = {steps} }}'
    return [*words, f"stages=[{stage}, {rl}]", f"reward.process={process}"]


def figures(steps: bench.Steps, success: float, window: int) -> dict[str, object]:
    """The success of the first and last steps, and the steps to a given one; None if it was not reached."""
    played: Sequence[Mapping[str, float]] = [row for row in steps.metrics if "success/mean" in row]
    found = [row["success/mean"] for row in played]
    means = [sum(found[end - window : end]) / window for end in range(window, len(found) + 1)]
    reached = next((place + window for place, mean in enumerate(means) if mean >= success), None)
    accuracy = [row["reward/process_accuracy"] for row in played if "reward/process_accuracy" in row]
    return {
        "first": round(means[0], 4) if means else None,
        "last": round(means[-1], 4) if means else None,
        "steps_to_success": reached,
        "alarms": sum(row.get("reward/process_alarm", 0.0) for row in played),
        "process_accuracy": [round(each, 3) for each in (accuracy[:1] + accuracy[-1:])],
        "seconds": round(sum(steps.seconds())),
    }


def _shown(runs: Sequence[Mapping[str, object]]) -> list[list[str]]:
    head = ["seed", "weight", "first", "last", "steps_to_success", "seconds"]
    return [head, *([str(run[name]) for name in head] for run in runs)]


if __name__ == "__main__":
    raise SystemExit(bench.ended(main))
