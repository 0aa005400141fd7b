"""``sandbox-trainer report``: a run on one page, or several beside each other; written, or served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainer.config.reading import read_run
from trainer.errors import ConfigError

from .terminal import explained, notes, results

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["report"]

_COMPARISON = "comparison.html"


def report(
    run: Annotated[
        Path,
        typer.Argument(metavar="FOLDER|RUN.toml", help="A run's folder, or the file that it was run by."),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER|KEY=VALUE]...",
            help="Folders of runs to compare with; with RUN.toml, settings of the run, such as name=.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write it; report.html in the folder."),
    ] = None,
    episodes: Annotated[
        int, typer.Option("--episodes", min=0, help="At most about so many episodes are in it.")
    ] = 400,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve the page on this machine, and renew it while the run goes on."),
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="With --serve; 0 takes a free one.")
    ] = 0,
) -> None:
    """Write a page with plots, evaluations and episodes of a run, also of one that goes on.

    The page needs no network and no server: open it in a browser, or send it to somebody. Of long runs it
    holds episodes from all over the run, and some that failed. Several folders make a page of all these runs.

    Examples:

        sandbox-trainer report var/runs/mine

        sandbox-trainer report deploy/runs/cpu_demo.toml name=mine -o mine.html

        sandbox-trainer report var/runs/mine --serve

        sandbox-trainer report var/runs/one var/runs/other -o both.html
    """
    with explained():
        folders = _folders(run, words or [])
        if serve:
            _serve(folders, episodes, port)
            return
        written = _write(folders, output, episodes)
    results().print(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)", markup=False, soft_wrap=True)


def _folders(run: Path, words: Sequence[str]) -> list[Path]:
    """The folders of the runs that are meant."""
    settings = [word for word in words if "=" in word]
    others = [Path(word) for word in words if word not in settings]
    for other in others:
        if not other.is_dir():
            raise ConfigError(f"{other} is neither the folder of a run nor of the form key=value")
    return [run if run.is_dir() else read_run(run, settings).folder, *others]


def _write(folders: Sequence[Path], output: Path | None, episodes: int) -> Path:
    from trainer.report.comparison import write_comparison
    from trainer.report.page import write_report

    if len(folders) == 1:
        return write_report(folders[0], output, episodes=episodes)
    return write_comparison(folders, output or folders[0].parent / _COMPARISON)


def _serve(folders: Sequence[Path], episodes: int, port: int) -> None:
    """Serve until Ctrl-C."""
    from trainer.report.comparison import render_comparison
    from trainer.report.live import LiveReport, ReportServer
    from trainer.report.page import render_report

    def render(state: str) -> str:
        if len(folders) == 1:
            return render_report(folders[0], episodes=episodes, live=state)
        return render_comparison(folders, live=state)

    try:
        server = ReportServer(LiveReport(folders, render), port)
    except OSError as error:
        raise ConfigError(f"port {port} cannot be used: {error.strerror}; choose another --port") from error
    with server:
        results().print(f"serving {server.url}", soft_wrap=True)
        notes().print("Ctrl-C ends it; the run goes on")
        server.serve_forever()
