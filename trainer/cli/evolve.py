"""``sandbox-trainer evolve``: improve a model by iterations of exploring and training."""

from __future__ import annotations

from typing import Annotated

import typer

from trainer.config.reading import read_run

from .earlier_run import choose_run, how_to_continue
from .evolution_progress import EvolutionProgress
from .evolution_tables import evolution_json, evolution_view
from .options import ForceOption, JsonOption, OverridesArgument, RunArgument, driver_of
from .placing import on_this_machine
from .terminal import explained, notes, results, write_json

ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Resume the evolution of this name in the phase that was interrupted."),
]


def evolve(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Improve a model by iterations: explore, select, train, evaluate, keep or roll back (AgentEvol).

    The kept model plays training tasks; a model is trained on the selected episodes, and kept if its success
    on the tasks of evaluation.splits permits it. The settings are those of the run's branch evolve. Each
    iteration is a folder in root/name. Ctrl-C stops; --resume continues in the phase that was interrupted.

    Examples:

        sandbox-trainer evolve deploy/runs/evolve_cpu.toml

        sandbox-trainer evolve RUN.toml evolve.iterations=5 evolve.explore.tasks=256

        sandbox-trainer evolve RUN.toml evolve.iterations=5 evolve.explore.tasks=256 --resume
    """
    with explained():
        config = read_run(run, overrides or ())
    driver = driver_of(context)
    afterwards = how_to_continue(force=force)
    with explained(f"interrupted in {config.folder}: {afterwards}", afterwards=afterwards):
        choose_run(driver, config, run, resume=resume, force=force)
        config = on_this_machine(driver, config, resume=resume)
        driver.check_name(config, resume=resume, replace=force)
        shown = config.tracking.progress
        with EvolutionProgress(config.evolve.iterations, notes(), shown=shown) as progress:
            result = driver.evolve(config, resume=resume, replace=force, listener=progress)
    if as_json:
        write_json(evolution_json(result))
    else:
        results().print(evolution_view(result))
