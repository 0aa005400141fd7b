"""Is it worth sampling ahead of training, where a few sandboxes take much longer than most?

    python -m tests.benchmarks.staleness --service sandbox.kind=process

rollout.max_staleness 0 (sampling and training take turns) and 1 (sampling is one update ahead) go through the
same number of steps, with a simulated policy and with the tiny model. Every step of every episode waits for a
seeded, long-tailed while on its way to the sandbox, the same in both.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import training_runs as runs
from tests.benchmarks.slow_service import LongTail, SlowService, slow_service

STALENESS = {"synchronous": 0, "one_ahead": 1}
POLICIES = ("simulated", "model")


def main() -> int:
    """Measure each chosen policy at both settings."""
    options = _options()
    began = time.monotonic()
    tail = LongTail(options.median, options.sigma, options.most, options.seed)
    with runs.place(options) as at, slow_service(at.url, tail) as (url, slow):
        slowly = replace(at, url=url)
        measured = {}
        if "simulated" in options.policy:
            measured["simulated"] = _beside(
                options.rounds, slow, lambda name, words: _simulated(slowly, name, words, options)
            )
        if "model" in options.policy:
            model = runs.warm_model(at, options.warm_steps)
            measured["model"] = _beside(
                options.rounds, slow, lambda name, words: _trained(slowly, name, words, model, options)
            )
    sizes = {
        name: getattr(options, name)
        for name in ("steps", "groups", "group_size", "rounds", "median", "sigma", "most", "seed")
    }
    runs.finish("staleness", {"sizes": sizes, **measured}, began, options.output)
    runs.tell(_table(measured))
    return 0


def _options() -> argparse.Namespace:
    parser = runs.parser(__doc__.split("\n", 1)[0])
    parser.add_argument("--policy", action="append", choices=POLICIES, help="both when missing; repeatable")
    parser.add_argument("--rounds", type=int, default=3, help="of each; medians are reported")
    parser.add_argument("--steps", type=int, default=10, help="updates of each run")
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument(
        "--median", type=float, default=0.5, help="seconds that a sandbox's step takes longer"
    )
    parser.add_argument("--sigma", type=float, default=1.0, help="of their logarithm")
    parser.add_argument("--most", type=float, default=20.0, help="the longest of them")
    parser.add_argument("--turn", type=float, default=0.1, help="seconds of a simulated turn, in the median")
    parser.add_argument("--update", type=float, default=3.0, help="seconds of a simulated update")
    options = parser.parse_args()
    options.policy = options.policy or list(POLICIES)
    if options.steps < 2:
        parser.error("the first step does not show what is worth sampling ahead: there must be two at least")
    return options


def _beside(
    rounds: int, slow: SlowService, measure: Callable[[str, Sequence[str]], dict[str, float]]
) -> dict[str, object]:
    """Both settings by turns; medians over the rounds, and their ratios."""
    each: dict[str, list[dict[str, float]]] = {name: [] for name in STALENESS}
    for index in range(rounds):
        for name, staleness in STALENESS.items():
            slow.forget()
            figures = measure(f"{name}-{index}", [f"rollout.max_staleness={staleness}"])
            each[name].append(
                {**figures, "sandbox_waits": len(slow.waited), "sandbox_wait_s": sum(slow.waited)}
            )
            runs.tell(f"  {name}: {figures['seconds']:.1f} s")
    medians = {
        name: {key: median(figures[key] for figures in listed) for key in listed[0]}
        for name, listed in each.items()
    }
    ratios = [
        before["seconds"] / after["seconds"]
        for before, after in zip(each["synchronous"], each["one_ahead"], strict=True)
    ]
    return {**medians, "ratio_wall_clock": median(ratios), "ratios": ratios, "rounds": each}


def _common(options: argparse.Namespace) -> list[str]:
    return [
        f"steps={options.steps}",
        f"rollout.groups={options.groups}",
        f"rollout.group_size={options.group_size}",
        # Both settings hold what a step needs; one ahead holds the next one's beside it.
        f"rollout.concurrency={2 * options.groups * options.group_size}",
        f"checkpoint.every={options.steps}",
        "algorithm.drop_flat_groups=false",
    ]


def _simulated(
    at: runs.Place, name: str, words: Sequence[str], options: argparse.Namespace
) -> dict[str, float]:
    timing = ["--turn", str(options.turn), "--spread", "0.5", "--update", str(options.update), "--json"]
    told = runs.trainer("simulate", at, f"simulated-{name}", [*_common(options), *words], *timing)
    result = json.loads(told)
    return {
        "seconds": result["seconds"],
        "engine_idle_share": result["idle_share"],
        "learner_waited_s": result["take_s"],
        "episodes": result["episodes"],
        "episodes_per_s": result["episodes_per_s"],
        "staleness": result["staleness"],
        "failures": sum(result["failures"].values()),
    }


def _trained(
    at: runs.Place, name: str, words: Sequence[str], model: Path, options: argparse.Namespace
) -> dict[str, float]:
    name = f"model-{name}"
    runs.trainer("train", at, name, [*runs.begins_with(model), *_common(options), *words], "--force")
    steps = runs.Steps.of(at.root / name)
    seconds = steps.seconds()
    # The first step's share counts from the start of the producer, long before there were weights.
    shares = list(zip(steps.each("engine/idle"), seconds, strict=True))[1:]
    episodes = sum(steps.each("episodes/count"))
    return {
        "seconds": sum(seconds),
        "engine_idle_share": sum(share * took for share, took in shares) / sum(seconds[1:]),
        "learner_waited_s": sum(steps.each("time/take")),
        "episodes": episodes,
        "episodes_per_s": episodes / sum(seconds),
        "staleness": sum(steps.each("staleness/mean")) / len(seconds),
        "failures": sum(steps.failures().values()),
        "reward_last": steps.each("reward/mean")[-1],
        **{f"{phase}_s": median_s for phase, median_s in steps.phases().items()},
    }


def _table(measured: dict[str, dict[str, Any]]) -> str:
    rows = [["policy", "synchronous", "one ahead", "ratio", "engine idle", "one ahead"]]
    for policy, figures in measured.items():
        before, after = figures["synchronous"], figures["one_ahead"]
        rows.append(
            [
                policy,
                f"{before['seconds']:.1f} s",
                f"{after['seconds']:.1f} s",
                f"{figures['ratio_wall_clock']:.2f}",
                f"{before['engine_idle_share']:.0%}",
                f"{after['engine_idle_share']:.0%}",
            ]
        )
    return runs.table(rows)


if __name__ == "__main__":
    sys.exit(runs.ended(main))
