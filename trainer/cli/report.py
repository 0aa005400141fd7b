"""``sandbox-trainer report``: a run on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainer.config.reading import read_run

from .terminal import explained, results

__all__ = ["report"]


def report(
    run: Annotated[
        Path,
        typer.Argument(metavar="FOLDER|RUN.toml", help="A run's folder, or the file that it was run by."),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="With RUN.toml: the settings of the run, such as name=."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write it; report.html in the folder."),
    ] = None,
    episodes: Annotated[
        int, typer.Option("--episodes", min=0, help="At most about so many episodes are in it.")
    ] = 400,
) -> None:
    """Write a page with plots, evaluations and episodes of a run, also of one that goes on.

    The page needs no network and no server: open it in a browser, or send it to somebody. Of long runs it
    holds episodes from all over the run, and some that failed.

    Examples:

        sandbox-trainer report var/runs/mine

        sandbox-trainer report deploy/runs/cpu_demo.toml name=mine -o mine.html
    """
    from trainer.report.page import write_report

    with explained():
        folder = run if run.is_dir() else read_run(run, words or ()).folder
        written = write_report(folder, output, episodes=episodes)
    results().print(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)", markup=False, soft_wrap=True)
