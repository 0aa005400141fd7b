"""Record short runs of a tiny model, most of them broken on purpose, for the tests of ``diagnose``.

    python -m scripts.broken_runs FOLDER                 # play all below FOLDER, and keep their records
    python -m scripts.broken_runs FOLDER no_warm_start   # only some
    python -m scripts.broken_runs FOLDER service.url=http://127.0.0.1:8080   # with more settings for each

Each is a real run of ``sandbox-trainer train``, with the sandbox service on this machine, and takes a
few minutes of two cores. What is kept in ``tests/unit/trainer/diagnose/runs/NAME`` are its settings, its
metrics, its evaluations and a few of its groups, without texts and tokens.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.types import Trajectory

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "unit" / "trainer" / "diagnose" / "runs"
DEMO = ROOT / "deploy" / "runs" / "cpu_demo.toml"

_CHANCE = random.Random(0)
_GROUPS = 12
"""Groups that are kept of each run, from all over it."""
_ALWAYS = (
    'service.start=["sandbox.kind=process"]',
    "checkpoint.export=false",
    "tracking.report=false",
    "tracking.progress=false",
)
_SHORT = ("steps=24", "rollout.groups=8", "warm_start.steps=150", "evaluation.limit=64")

RUNS: dict[str, tuple[str, ...]] = {
    "healthy": (),
    "learning_rate_too_high": (*_SHORT, "learner.optimizer.learning_rate=1e-3"),
    "learning_rate_far_too_high": (*_SHORT, "learner.optimizer.learning_rate=0.1"),
    # Without any success there is no advantage, and the empty range of the clipping has no effect either.
    "warm_start_too_short": (
        *("steps=16", "rollout.groups=8", "warm_start.steps=80", "evaluation.splits=[]"),
        *("algorithm.loss.clip_low=0", "algorithm.loss.clip_high=0", "learner.minibatches=4"),
    ),
    # As if the sign of the bonus were the other way round: certainty is rewarded in place of variety.
    "entropy_punished": (
        *(*_SHORT, "algorithm.entropy=-3.0", "learner.minibatches=8"),
        "learner.optimizer.learning_rate=1e-3",
    ),
    "clip_range_too_small": (
        *(*_SHORT, "algorithm.loss.clip_low=1e-5", "algorithm.loss.clip_high=1e-5"),
        *("learner.minibatches=4", "learner.epochs=4", "learner.optimizer.learning_rate=5e-5"),
    ),
    "reward_function_fails": (*_SHORT, 'reward.kind="scripts.broken_runs:fails_for_a_third"'),
}
"""The overrides of the demo that make each run."""


def main() -> None:
    """Play and record the runs that are named, or all."""
    folder, *words = sys.argv[1:]
    more = [word for word in words if "=" in word]
    for name in [word for word in words if word not in more] or RUNS:
        play(name, Path(folder).absolute(), more)
        if (Path(folder) / name / "metrics.jsonl").exists():
            keep(Path(folder) / name, KEPT / name)
            print(f"{name}: kept in {KEPT / name}")


def play(name: str, root: Path, more: Sequence[str]) -> None:
    """Train one run, in place of an earlier one of its name; a run that fails is kept as far as it went."""
    command = "from trainer.cli.app import main; main()"
    overrides = (*_ALWAYS, *RUNS[name], f"name={name}", f"root={root}", *more, "--force")
    subprocess.run([sys.executable, "-c", command, "train", str(DEMO), *overrides], cwd=ROOT, check=False)


def fails_for_a_third(trajectory: Trajectory) -> float:
    """The environment's score; raises for a third of the episodes, like a service that is overloaded."""
    if _CHANCE.random() < 1 / 3:
        raise ConnectionError("the service for rewards is overloaded")
    return trajectory.score or 0.0


def keep(run: Path, kept: Path) -> None:
    """Copy what ``diagnose`` reads."""
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        if (run / name).exists():
            lines = (run / name).read_bytes().splitlines()
            (kept / name).write_text(
                "".join(f"{_compact(json.loads(line))}\n" for line in lines), encoding="utf-8"
            )
    config = json.loads((run / "run.json").read_text(encoding="utf-8"))
    config |= {"root": "var/runs", "name": kept.name}
    # Neither the checkout's place nor the service's address is part of the record.
    config["service"]["url"] = None
    demonstrations = Path(config["warm_start"]["demonstrations"])
    config["warm_start"]["demonstrations"] = demonstrations.relative_to(ROOT).as_posix()
    (kept / "run.json").write_text(json.dumps(config) + "\n", encoding="utf-8")
    if (run / "trajectories.jsonl").exists():
        groups = (run / "trajectories.jsonl").read_bytes().splitlines()
        chosen = groups[:: max(1, len(groups) // _GROUPS)]
        text = "".join(f"{_slim(line)}\n" for line in chosen)
        (kept / "trajectories.jsonl").write_text(text, encoding="utf-8")


def _slim(line: bytes) -> str:
    """Return a group without texts and tokens, which no rule reads."""
    group = json.loads(line)
    for trajectory in group["trajectories"]:
        trajectory["lines"] = []
        for segment in trajectory["segments"]:
            segment |= {"token_ids": [], "loss_mask": [], "logprobs": []}
    return _compact(group)


def _compact(tree: object) -> str:
    """Return JSON with six digits of each number."""
    return json.dumps(_rounded(tree), separators=(",", ":"))


def _rounded(tree: object) -> object:
    if isinstance(tree, dict):
        return {name: _rounded(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_rounded(value) for value in tree]
    return float(f"{tree:.6g}") if isinstance(tree, float) else tree


if __name__ == "__main__":
    main()
