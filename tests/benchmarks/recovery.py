"""Measure the loss of a run when a part of it is killed: one run for each part, beside one without a kill.

    python -m tests.benchmarks.recovery engine worker batches --folder FOLDER --output recovery.json

Each scenario is a short run by the command line, in a process of its own. When a step shows in its metrics,
one process of it gets SIGKILL (interrupt: Ctrl-C); a run whose command has ended is gone on with by --resume.
Names that are joined by a plus are of things that are hit one after another in one run. In the end the
ledger has to be right: every step once, every trajectory once, nothing left out, and no process left behind.
Prints JSON; the exit code is 1 when a run did not survive. Runs are compared with an undisturbed one of the
same call alone.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.benchmarks import training_runs as bench
from tests.harness.killed_run import COMMANDS, ROOT, Hit, KilledRun, RunPlan, ledger, train_command

UNDISTURBED = "undisturbed"
SCENARIOS = (UNDISTURBED, "box", "supervisor", "engine", "worker", "batches", *COMMANDS)

SHOWN = 4
"""The step that is waited for: the next checkpoint is still to come, so that steps are done again."""

WARM = """
[warm_start]
demonstrations = "{demonstrations}"
steps = {steps}
batch = 32
keep_failures = true
optimizer = {{ learning_rate = 2e-3, schedule = "cosine", warmup_steps = 30, weight_decay = 0.01 }}
"""


def play(plan: RunPlan, scenario: str) -> KilledRun:
    """One scenario from its start to its end; its command ends with this call, however that ends."""
    run = KilledRun(plan, scenario.replace("+", "-"), plan.write())
    run.start("--force")
    try:
        for number, what in enumerate(hits_of(scenario)):
            if run.until_step(SHOWN + number):
                time.sleep(0.5)  # into the next step's episodes
                run.kill(what)
        run.until_end()
        if scenario in COMMANDS and run.hits:
            run.start("--resume")
            run.until_end()
    finally:
        run.stop()
    return run


def hits_of(scenario: str) -> list[str]:
    """Return the parts that are killed, in order."""
    return [] if scenario == UNDISTURBED else scenario.split("+")


def outcome(run: KilledRun, scenario: str) -> dict[str, object]:
    """Everything that is known of a scenario's run, and whether it survived."""
    plan, book = run.plan, ledger(run)
    evaluations = [(line["step"], line["when"]) for line in run.lines("evaluations.jsonl")]
    exits = {"driver": [-9, 0], "interrupt": [130, 0]}.get(scenario, [0])
    left = run.family.left(wall_timeout_s=30.0)
    checks = {
        f"exit codes {run.exits}": run.exits == exits,
        "not everything was hit": [hit.what for hit in run.hits] == hits_of(scenario),
        "a step has no metrics": {line["step"] for line in run.logged()} == set(range(plan.steps)),
        f"evaluations {evaluations}": evaluations == [(0, "before"), (plan.steps, "after")],
        f"processes left: {left}": not left,
    }
    wrong = [*book.wrong, *(what for what, fine in checks.items() if not fine)]
    # The same for runs that consumed the same trajectories at the same steps.
    consumed = hashlib.sha256(json.dumps(book.consumed).encode()).hexdigest()
    return {"survived": not wrong, "wrong": wrong, **figures(run), "consumed": consumed}


def figures(run: KilledRun) -> dict[str, object]:
    """Times and rewards; of a step that was done again the reward of the last time counts."""
    logged = run.logged()
    first: dict[int, float] = {}
    for line in logged:
        first.setdefault(line["step"], line["time"])
    step_s = statistics.median([b - a for a, b in itertools.pairwise(first.values())] or [0.0])
    rewards = {line["step"]: round(line["metrics"]["reward/mean"], 4) for line in logged}
    known: dict[str, object] = {
        "seconds": round(run.ended - run.began, 1),
        "step_s": round(step_s, 2),
        "logged": len(logged),
        "rewards": [rewards.get(step) for step in range(run.plan.steps)],
    }
    known["hits"] = [hit_figures(hit, first, step_s) for hit in run.hits]
    return known


def hit_figures(hit: Hit, first: dict[int, float], step_s: float) -> dict[str, object]:
    """Return the time from a kill until a step was done that had not been done before."""
    after = [at for step, at in first.items() if step > hit.shown and at > hit.at]
    wait_s = min(after) - hit.at if after else None
    return {
        "what": hit.what,
        "shown": hit.shown,
        "to_next_step_s": None if wait_s is None else round(wait_s, 1),
        "lost_s": None if wait_s is None else round(max(0.0, wait_s - step_s), 1),
    }


def beside(this: dict, calm: dict) -> None:
    """Compare with the undisturbed run of the same seed."""
    pairs = [each for each in zip(this["rewards"], calm["rewards"], strict=True) if None not in each]
    this["same_consumed"] = this["consumed"] == calm["consumed"]
    this["reward_beside"] = round(statistics.mean(a - b for a, b in pairs), 4) if pairs else None
    this["seconds_beside"] = round(this["seconds"] - calm["seconds"], 1)


def warm_model(folder: Path, steps: int) -> Path:
    """A model that solves some tasks and fails most; made once a folder. Raises RunFailed."""
    name = f"warm-{steps}"
    model = folder / name / "model"
    if not (model / "config.json").exists():
        demonstrations = ROOT / "deploy/runs/data/arithmetic_easy_corrupted.jsonl"
        plan = RunPlan(folder, 'kind = "tiny"', steps=1)
        file = plan.write(WARM.format(demonstrations=demonstrations, steps=steps))
        words = [f"root={folder}", f"name={name}", "evaluation.splits=[]", "--force"]
        bench.run([train_command(), "sft", file, *words], folder / f"{name}.log")
    return model


def main() -> int:
    """Play the scenarios. Raises RunFailed for those that did not survive."""
    given = _options()
    there = given.output is not None and given.output.exists()
    known: dict[str, dict] = json.loads(given.output.read_text()) if there else {}
    found: dict[str, dict] = {}
    with bench.runs_folder(given.folder, "recovery-") as folder:
        model = (given.model or warm_model(folder, given.warm_steps)).absolute()
        plan = replace(RunPlan(folder, f'kind = "pretrained"\npath = "{model}"'), steps=given.steps)
        for scenario in given.scenarios or SCENARIOS:
            found[scenario] = outcome(play(plan, scenario), scenario)
            _write({**known, **found}, given.output)
        if UNDISTURBED in found:
            for each in found.values():
                beside(each, found[UNDISTURBED])
            _write({**known, **found}, given.output)
        sys.stdout.write(json.dumps({**known, **found}, indent=1) + "\n")
        if lost := [scenario for scenario, each in found.items() if not each["survived"]]:
            raise bench.RunFailed(f"these runs did not survive: {', '.join(lost)}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", help=f"of {', '.join(SCENARIOS)}; all when none is named")
    parser.add_argument("--folder", type=Path, help="where the runs go; a temporary one when missing")
    parser.add_argument("--model", type=Path, help="a model that was warm-started; made when missing")
    parser.add_argument("--warm-steps", type=int, default=150)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--output", type=Path, help="results are added to those that the file has")
    given = parser.parse_args()
    if unknown := {part for each in given.scenarios for part in each.split("+")} - set(SCENARIOS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    return given


def _write(found: dict[str, dict], output: Path | None) -> None:
    if output is not None:
        output.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    sys.exit(bench.ended(main))
