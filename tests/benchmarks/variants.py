"""Does reward rise whatever the algorithm, the number of workers, the sharding and the weights that learn?

    python -m tests.benchmarks.variants --service sandbox.kind=process

All variants begin with one warm-started model and play the same tasks. Flat groups are kept, so that the
reward of a step is the mean of all that was played in it.
"""

import argparse
import sys
import time
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

from tests.benchmarks import training_runs as runs

ALGORITHMS = {
    "grpo": ['algorithm.advantage={ kind = "grpo" }'],
    "ppo": [
        'algorithm.advantage={ kind = "gae", lam = 1.0 }',
        "algorithm.value={ learning_rate = 2e-3, detach = true }",
    ],
}
WORKERS = {"1": ["learner.workers=1"], "2": ["learner.workers=2"]}
SHARDINGS = {name: [f"learner.sharding={name}"] for name in ("ddp", "fsdp2")}
WEIGHTS = {
    "full": ["learner.optimizer.learning_rate=3e-4"],
    "lora": ["learner.lora={ rank = 16, alpha = 32.0 }", "learner.optimizer.learning_rate=2e-3"],
}
VARIANTS = {
    "-".join(names): [
        word
        for name, words in zip(names, (ALGORITHMS, WORKERS, SHARDINGS, WEIGHTS), strict=True)
        for word in words[name]
    ]
    for names in product(ALGORITHMS, WORKERS, SHARDINGS, WEIGHTS)
}
USUAL = (
    "grpo-1-ddp-full",
    "grpo-2-ddp-full",
    "grpo-2-fsdp2-full",
    "grpo-1-ddp-lora",
    "grpo-2-fsdp2-lora",
    "ppo-1-ddp-full",
    "ppo-2-ddp-full",
    "ppo-2-fsdp2-full",
    "ppo-1-ddp-lora",
    "ppo-2-fsdp2-lora",
)


def main() -> int:
    """Run the variants one after another; the exit code is 1 when one of them failed."""
    options = _options()
    began = time.monotonic()
    with runs.place(options) as at:
        model = runs.warm_model(at, options.warm_steps)
        measured = {name: _measured(name, at, model, options) for name in options.variant}
        chosen = ("steps", "groups", "group_size", "warm_steps", "seed")
        sizes = {name: getattr(options, name) for name in chosen}
        runs.finish("variants", {"sizes": sizes, "variants": measured}, began, options.output)
        runs.tell(_table(measured))
        runs.require_all(measured)
    return 0


def _options() -> argparse.Namespace:
    parser = runs.parser(__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--variant",
        action="append",
        metavar="PATTERN",
        help=f"such as 'grpo-*'; repeatable. The usual ones when missing, of: {', '.join(VARIANTS)}",
    )
    parser.add_argument("--steps", type=int, default=20, help="updates of each variant")
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--group-size", type=int, default=8)
    options = parser.parse_args()
    options.variant = runs.matching(parser, VARIANTS, options.variant or USUAL)
    return options


def _measured(name: str, at: runs.Place, model: Path, options: argparse.Namespace) -> dict[str, object]:
    words = [
        *runs.begins_with(model),
        *VARIANTS[name],
        f"steps={options.steps}",
        f"rollout.groups={options.groups}",
        f"rollout.group_size={options.group_size}",
        f"checkpoint.every={options.steps}",
        "algorithm.drop_flat_groups=false",
    ]
    runs.tell(name)
    began = time.monotonic()
    try:
        runs.trainer("train", at, name, words, "--force")
    except runs.RunFailed as error:
        runs.tell(str(error))
        return {"words": words, "error": str(error)}
    return {"words": words, "wall_s": time.monotonic() - began, **_figures(runs.Steps.of(at.root / name))}


def _figures(steps: runs.Steps) -> dict[str, object]:
    rewards = steps.each("reward/mean")
    few = min(5, max(1, len(rewards) // 2))
    return {
        "reward_first": mean(rewards[:few]),
        "reward_last": mean(rewards[-few:]),
        "rewards": [round(reward, 4) for reward in rewards],
        "averaged_steps": few,
        "step_s": median(steps.seconds()[1:] or steps.seconds()),
        "phase_s": steps.phases(),
        "tokens_a_step": median(steps.each("tokens/trained")),
        "episodes": sum(steps.each("episodes/count")),
        "sync_difference_max": max(steps.each("sync/difference")),
        "mismatch_kl_max": max(steps.each("mismatch/kl")),
        "drifted": sum(steps.each("episodes/drifted")),
        "failures": steps.failures(),
    }


def _table(measured: dict[str, dict[str, Any]]) -> str:
    rows = [["variant", "reward first", "last", "seconds a step", "sync difference", "failures"]]
    for name, figures in measured.items():
        if "error" in figures:
            rows.append([name, "failed", "", "", "", ""])
            continue
        rows.append(
            [
                name,
                f"{figures['reward_first']:.3f}",
                f"{figures['reward_last']:.3f}",
                f"{figures['step_s']:.2f}",
                f"{figures['sync_difference_max']:.1e}",
                f"{sum(figures['failures'].values()):.0f}",
            ]
        )
    return runs.table(rows)


if __name__ == "__main__":
    sys.exit(runs.ended(main))
