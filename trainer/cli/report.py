"""``sandbox-trainer report``: write or serve a page about one run, or a comparison of several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sandbox_settings import shown_toml
from trainer.config.reading import read_run
from trainer.errors import ConfigError

from .output_files import check_apart, check_writable
from .terminal import explained, notes, results

_COMPARISON = "comparison.html"


def report(
    run: Annotated[
        Path,
        typer.Argument(metavar="FOLDER|RUN.toml", help="A run's folder, or its run file."),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER|KEY=VALUE]...",
            help=(
                "Folders of runs to compare with; with RUN.toml, overrides of the run's "
                "settings, such as name=."
            ),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The page; default: report.html in the run's folder."
        ),
    ] = None,
    episodes: Annotated[
        int, typer.Option("--episodes", min=0, help="Approximate limit of episodes on the page.")
    ] = 400,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="Serve the page on this machine, and update it while the run is in progress."
        ),
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port for --serve; 0 takes a free one.")
    ] = 0,
) -> None:
    """Write a page with plots, evaluations and episodes of a run, finished or in progress.

    The page needs no network and no server: open it in a browser, or send it to others. For long runs it
    holds a sample of episodes from the whole run, and some failed ones. Several folders make a page that
    compares the runs; the folder of an evolution makes a page with success by iteration.

    Examples:

        sandbox-trainer report var/runs/mine

        sandbox-trainer report deploy/runs/cpu_demo.toml name=mine -o mine.html

        sandbox-trainer report var/runs/mine --serve

        sandbox-trainer report var/runs/one var/runs/other -o both.html
    """
    with explained():
        check_apart(output, (run,))
        folders = _folders(run, overrides or [])
        if serve:
            _serve(folders, episodes, port)
            return
        written = _write(folders, output, episodes)
    results().print(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)", markup=False, soft_wrap=True)


def _folders(run: Path, overrides: Sequence[str]) -> list[Path]:
    """Return the folders of the given runs."""
    settings = [each for each in overrides if "=" in each and not Path(each).is_dir()]
    others = [Path(each) for each in overrides if each not in settings]
    for other in others:
        if not other.is_dir():
            raise ConfigError(f"{other} is neither the folder of a run nor an override of the form key=value")
    if not run.is_dir():
        return [read_run(run, settings).folder, *others]
    if settings:
        raise ConfigError(
            f"{run} is the folder of a run, which takes no overrides: leave out {' '.join(settings)}, "
            "or name the run file in place of the folder"
        )
    return [run, *others]


def _write(folders: Sequence[Path], output: Path | None, episodes: int) -> Path:
    from trainer.report.comparison import write_comparison
    from trainer.report.page import write_report

    check_writable(output)
    if len(folders) > 1:
        return write_comparison(folders, output or folders[0].parent / _COMPARISON)
    if _is_evolution(folders[0]):
        return _write_evolution(folders[0], output)
    return write_report(folders[0], output, episodes=episodes)


def _write_evolution(folder: Path, output: Path | None) -> Path:
    from trainer.evolve.folder import EvolutionFolder
    from trainer.evolve.report import write_evolution_report
    from trainer.launch.folder import RunFolder

    config = RunFolder.config_of(folder)
    return write_evolution_report(EvolutionFolder(folder), config.name, shown_toml(config), output)


def render_live(folders: Sequence[Path], episodes: int, state: str) -> str:
    """Return the page of some folders as it is served; ``state`` is what they were read in.

    Raises TrainerError for a folder that is not a run's or an evolution's.
    """
    from trainer.report.comparison import render_comparison
    from trainer.report.page import render_report

    if len(folders) > 1:
        return render_comparison(folders, live=state)
    if _is_evolution(folders[0]):
        return _render_evolution(folders[0], state)
    return render_report(folders[0], episodes=episodes, live=state)


def _render_evolution(folder: Path, state: str) -> str:
    from trainer.evolve.folder import EvolutionFolder
    from trainer.evolve.report import render_evolution_report
    from trainer.launch.folder import RunFolder

    config = RunFolder.config_of(folder)
    return render_evolution_report(EvolutionFolder(folder), config.name, shown_toml(config), state)


def _is_evolution(folder: Path) -> bool:
    return (folder / "iteration_0").exists()


def _serve(folders: Sequence[Path], episodes: int, port: int) -> None:
    """Serve until Ctrl-C."""
    from trainer.report.live import LiveReport, ReportServer

    try:
        server = ReportServer(LiveReport(folders, partial(render_live, folders, episodes)), port)
    except OSError as error:
        raise ConfigError(f"port {port} cannot be used: {error.strerror}; choose another --port") from error
    with server:
        results().print(f"serving on {server.url}", soft_wrap=True)
        notes().print("Ctrl-C stops the server; the run continues")
        server.serve_forever()
