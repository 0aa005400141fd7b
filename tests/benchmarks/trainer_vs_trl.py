"""Our GRPO beside TRL's GRPOTrainer: tokens trained a second, on the same model, tasks and budget.

    python -m tests.benchmarks.trainer_vs_trl --service sandbox.kind=process

Both begin with the same warm-started model and play episodes of the same tasks in the same order, in the same
service: so many episodes a prompt, each turn at most so many tokens, one update a step, float32, one thread a
process. Ours samples with vLLM in a process of its own; TRL, without a GPU, with transformers. Episodes have
one turn, and in the same run three turns. With one turn, TRL's reward function creates an instance for each
completion, steps with it and evaluates; with several, its ``rollout_func`` plays (see ``trl_turns``). The
first step, which warms up, is not counted, nor is anything before it.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from tests.benchmarks import training_runs as runs
from trainer.tracking.step_phases import STEP_PHASES

SPLIT = "arithmetic_train_easy"
REFERENCES = runs.REPOSITORY / "deploy/runs/data/arithmetic_easy.jsonl"
ROW = "```bash\necho $(({}))>answer.txt\n```"
"""The last turn of an episode: the answer is left in the file in which it is looked for."""
LOOK = "```python\nprint({})\n```"
"""A turn before it."""


def main() -> int:
    """Measure both sides by turns."""
    options = _options()
    began = time.monotonic()
    with runs.place(options) as at:
        compared = {f"turns_{turns}": _compared(at, turns, options) for turns in options.turns}
    sizes = {name: getattr(options, name) for name in SIZES}
    runs.finish("trainer_vs_trl", {"sizes": sizes, **compared}, began, options.output)
    return 0


def _compared(at: runs.Place, turns: int, options: argparse.Namespace) -> dict[str, object]:
    """Both sides by turns, with episodes of so many turns."""
    shown = demonstrations(at.root / f"turns-{turns}.jsonl", turns)
    warm = [f"warm_start.demonstrations={shown}", f"rollout.max_turns={turns}"]
    model = runs.warm_model(at, options.warm_steps, warm, f"warm-{turns}-turns")
    rounds: dict[str, list[dict[str, Any]]] = {"ours": [], "trl": []}
    for index in range(options.rounds):
        for name, measure in (("ours", _ours), ("trl", _trl)):
            figures = measure(at, index, model, options, turns)
            rounds[name].append(figures)
            runs.tell(f"  {turns} turns, {name}: {figures['tokens_per_s']:.0f} tokens trained a second")
    sides = {name: _medians(listed) for name, listed in rounds.items()}
    ratios = [
        ours["tokens_per_s"] / theirs["tokens_per_s"]
        for ours, theirs in zip(rounds["ours"], rounds["trl"], strict=True)
    ]
    runs.tell(_table(sides, median(ratios)))
    return {**sides, "ratio_tokens_per_s": median(ratios), "ratios": ratios, "rounds": rounds}


SIZES = ("turns", "steps", "groups", "group_size", "max_tokens", "rounds", "warm_steps", "threads", "seed")


def _options() -> argparse.Namespace:
    parser = runs.parser(__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=3, help="of each side, by turns; medians are reported")
    parser.add_argument("--turns", type=int, nargs="+", default=[1, 3], help="of an episode")
    parser.add_argument("--steps", type=int, default=8, help="updates of a round, the first one not counted")
    parser.add_argument("--groups", type=int, default=16, help="prompts a step")
    parser.add_argument("--group-size", type=int, default=8, help="completions a prompt")
    parser.add_argument("--max-tokens", type=int, default=40, help="of a completion")
    parser.add_argument("--threads", type=int, default=1, help="of torch, in each process that has it")
    parser.add_argument(
        "--continuous-batching",
        action="store_true",
        help="TRL samples with transformers' continuous batching, which is slow on a CPU",
    )
    parser.set_defaults(warm_steps=120)  # nothing is corrupted, so that fewer leave something to learn
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("the first step is not counted: there must be two at least")
    return options


def demonstrations(file: Path, turns: int) -> Path:
    """The references as programs of so many turns, for the warm start: all but the last one only look."""
    lines = []
    for text in REFERENCES.read_text().splitlines():
        shown = json.loads(text)
        program = shown["messages"][0]["content"]
        expression = program.split("print(", 1)[1].split(")\n```", 1)[0]
        contents = [LOOK.format(expression)] * (turns - 1) + [ROW.format(expression)]
        said = [{"role": "assistant", "content": content} for content in contents]
        lines.append(json.dumps({**shown, "messages": said}))
    file.write_text("\n".join(lines) + "\n")
    return file


def _words(options: argparse.Namespace, turns: int) -> list[str]:
    """Settings that both sides read."""
    return [
        f"steps={options.steps}",
        f'tasks.splits=["{SPLIT}"]',
        f"rollout.groups={options.groups}",
        f"rollout.group_size={options.group_size}",
        f"rollout.concurrency={options.groups * options.group_size}",
        f"rollout.sampling.max_turn_tokens={options.max_tokens}",
        f"rollout.max_turns={turns}",
        "rollout.max_staleness=0",
        "learner.minibatches=1",
        f"learner.threads={options.threads}",
        f"engine.threads={options.threads}",
        "algorithm.drop_flat_groups=false",
        f"checkpoint.every={options.steps}",
    ]


def _ours(
    at: runs.Place, index: int, model: Path, options: argparse.Namespace, turns: int
) -> dict[str, object]:
    name = f"ours-{turns}-turns-{index}"
    runs.trainer("train", at, name, [*runs.begins_with(model), *_words(options, turns)], "--force")
    steps = runs.Steps.of(at.root / name)
    phases = {phase: steps.each(f"time/{phase}")[1:] for phase in STEP_PHASES}
    return _figures(
        steps.seconds()[1:], steps.each("tokens/trained")[1:], steps.each("reward/mean")[1:], phases
    )


def _trl(
    at: runs.Place, index: int, model: Path, options: argparse.Namespace, turns: int
) -> dict[str, object]:
    folder = at.root / f"trl-{turns}-turns-{index}"
    folder.mkdir(exist_ok=True)
    settings = {
        "run": str(runs.DEMO),
        "words": [f"seed={at.seed}", "evaluation.splits=[]", *_words(options, turns), *at.words],
        "model": str(model),
        "url": at.url,
        "folder": str(folder),
        "threads": options.threads,
        "continuous_batching": options.continuous_batching,
    }
    file = folder / "settings.json"
    file.write_text(json.dumps(settings, indent=2))
    variables = {
        "OMP_NUM_THREADS": str(options.threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-m", "tests.benchmarks.trl_grpo", str(file)]
    told = runs.run(command, at.root / "logs" / f"trl-{turns}-turns-{index}.log", variables)
    steps = json.loads(told.splitlines()[-1])[1:]
    phases = {
        "sampling": [step["sampling"] for step in steps],
        "sandbox": [step["sandbox"] for step in steps],
        "update": [step["seconds"] - step["sampling"] - step["sandbox"] for step in steps],
    }
    seconds, tokens = [step["seconds"] for step in steps], [step["tokens"] for step in steps]
    return _figures(seconds, tokens, [step["reward"] for step in steps], phases)


def _figures(
    seconds: Sequence[float],
    tokens: Sequence[float],
    rewards: Sequence[float],
    phases: Mapping[str, Sequence[float]],
) -> dict[str, object]:
    return {
        "tokens_per_s": sum(tokens) / sum(seconds),
        "step_s": median(seconds),
        "tokens_a_step": mean(tokens),
        "reward": mean(rewards),
        "phase_s": {phase: median(each) for phase, each in phases.items()},
        "steps_s": [round(each, 3) for each in seconds],
    }


def _medians(rounds: Sequence[dict[str, Any]]) -> dict[str, object]:
    names = ("tokens_per_s", "step_s", "tokens_a_step", "reward")
    phases = rounds[0]["phase_s"]
    return {
        **{name: median(figures[name] for figures in rounds) for name in names},
        "phase_s": {phase: median(figures["phase_s"][phase] for figures in rounds) for phase in phases},
    }


def _table(sides: dict[str, dict[str, Any]], ratio: float) -> str:
    rows = [["", "tokens/s", "seconds a step", "tokens a step", "reward", "phases"]]
    for name, figures in sides.items():
        rows.append(
            [
                name,
                f"{figures['tokens_per_s']:.0f}",
                f"{figures['step_s']:.2f}",
                f"{figures['tokens_a_step']:.0f}",
                f"{figures['reward']:.3f}",
                ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in figures["phase_s"].items()),
            ]
        )
    return f"{runs.table(rows)}\nours is {ratio:.2f} times TRL's tokens a second"


if __name__ == "__main__":
    sys.exit(runs.ended(main))
