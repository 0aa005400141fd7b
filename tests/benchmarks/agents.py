"""Measure the recordings of the agents of examples/: spliced calls, sequences, agreement with the learner.

    python -m tests.benchmarks.agents --service sandbox.kind=process

Each agent trains by its own run file, with its packages in an environment that is made on first use. Figures
are of all episodes that the run trained on, the table of examples/README.md on standard error.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from tests.benchmarks import training_runs as runs
from tests.harness.agent_packages import AGENTS
from tests.harness.agent_runs import agent_run, figures_of, run_words


def main() -> int:
    """Run the agents one after another; the exit code is 1 when one of them failed."""
    options = _options()
    began = time.monotonic()
    with runs.place(options) as at:
        measured = {name: _measured(name, at, options) for name in options.agent}
        runs.finish("agents", {"agents": measured}, began, options.output)
        runs.tell(_table(measured))
        runs.require_all(measured)
    return 0


def _options() -> argparse.Namespace:
    parser = runs.parser(__doc__.split("\n", 1)[0])
    parser.add_argument("--agent", action="append", metavar="PATTERN", help="such as 'openai_*'; repeatable")
    parser.add_argument("--steps", type=int, default=10, help="updates of each agent")
    options = parser.parse_args()
    options.agent = runs.matching(parser, AGENTS, options.agent or ["*"])
    return options


def _measured(name: str, at: runs.Place, options: argparse.Namespace) -> dict[str, float | str]:
    runs.tell(f"{name}: {options.steps} steps")
    words = [
        f"root={at.root}",
        f"seed={at.seed}",
        f"service.url={at.url}",
        f"steps={options.steps}",
        f"warm_start.steps={options.warm_steps}",
        "tracking.progress=false",
        "tracking.report=false",
        "ray.cpus=4",
        *run_words(name),
        *at.words,
    ]
    command = [str(Path(sys.executable).with_name("sandbox-trainer")), "train", str(agent_run(name))]
    began = time.monotonic()
    try:
        runs.run([*command, *words, "--force"], at.root / "logs" / f"{name}.log")
    except runs.RunFailed as error:
        runs.tell(str(error))
        return {"error": str(error)}
    found = figures_of(at.root / name)
    steps = runs.Steps.of(at.root / name)
    success = [row["success/mean"] for row in steps.metrics if "success/mean" in row]
    glue = (agent_run(name).parent / "agent.py").read_text().splitlines()
    return {
        "glue_lines": len(glue),
        "episodes": found.episodes,
        "graded": found.graded,
        "calls_per_episode": found.calls / found.episodes,
        "spliced": found.spliced,
        "sequences_per_episode": found.sequences_per_episode,
        "recorded": found.trained / found.sampled,
        "difference_max": found.difference,
        "success_first": success[0],
        "success_last": success[-1],
        "failed_attempts": json.dumps(steps.failures()),
        "seconds": round(time.monotonic() - began, 1),
    }


def _table(measured: dict[str, dict[str, float | str]]) -> str:
    shown = ("glue_lines", "episodes", "calls_per_episode", "spliced", "sequences_per_episode")
    rows = [["agent", *shown, "difference_max"]]
    for name, figures in measured.items():
        if "error" in figures:
            rows.append([name, *["failed"] * (len(shown) + 1)])
        else:
            cells = [f"{figures[each]:.3g}" for each in shown]
            rows.append([name, *cells, f"{figures['difference_max']:.1e}"])
    return runs.table(rows)


if __name__ == "__main__":
    sys.exit(runs.ended(main))
