"""Open the trackers that a run configures. Their packages are imported here, only when needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, cast

from sandbox_plugins import PluginGroup, missing_methods
from sandbox_settings import flat_settings, without_secrets
from trainer.errors import ConfigError, TrainerError
from trainer.plugins import plugin_function, rejected

from .composite import CompositeTracker
from .jsonl import JsonlTracker
from .mlflow import MlflowTracker
from .tensorboard import TensorboardTracker
from .tracker import TrackerSetup
from .wandb import WandbTracker

if TYPE_CHECKING:
    from trainer.config import TrackerSettings
    from trainer.config.outputs import PluginTracker

    from .tracker import Tracker


Importer: TypeAlias = "Callable[[str], ModuleType]"


def open_tracker(
    settings: TrackerSettings, folder: Path, importer: Importer = importlib.import_module
) -> Tracker:
    """Return all trackers of a run as one.

    They are opened before the first step, so that a run fails early: raises ConfigError for a missing
    package, and TrainerError for a service that cannot be reached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = JsonlTracker(folder / "metrics.jsonl")
    opened: list[Tracker] = []
    try:
        for tracker in _optional_trackers(settings, folder, importer):
            # One by one, so that those already open are closed when the next one fails.
            opened.append(tracker)
    except TrainerError:
        CompositeTracker(own, opened).close()
        raise
    return CompositeTracker(own, opened)


def _optional_trackers(settings: TrackerSettings, folder: Path, importer: Importer) -> Iterator[Tracker]:
    name, tracking, run = settings.name, settings.tracking, _kept(settings.run)
    if tracking.tensorboard:
        _package("tensorboard", "tracking.tensorboard", importer)
        yield TensorboardTracker(folder / "tensorboard")
    if tracking.wandb_project is not None:
        package = _package("wandb", "tracking.wandb_project", importer)
        project = tracking.wandb_project
        yield _opened("wandb", lambda: WandbTracker(package, project, name, folder, run))
    if tracking.mlflow_uri is not None:
        package = _package("mlflow", "tracking.mlflow_uri", importer)
        uri, experiment = tracking.mlflow_uri, tracking.mlflow_experiment
        yield _opened("mlflow", lambda: MlflowTracker(package, uri, experiment, name, folder, run))
    for plugin in tracking.plugins:
        yield _plugin_tracker(plugin, TrackerSetup(name, folder, run))


def _plugin_tracker(plugin: PluginTracker, setup: TrackerSetup) -> Tracker:
    make = plugin_function(PluginGroup.TRACKERS, plugin.kind, plugin.options)
    tracker = _opened(plugin.kind, lambda: cast("Tracker", make(setup, **plugin.options)))
    if problem := missing_methods(tracker, ("log", "close")):
        raise rejected(PluginGroup.TRACKERS, plugin.kind, f"{problem}, and so no Tracker")
    return tracker


def _package(name: str, setting: str, importer: Importer) -> ModuleType:
    try:
        return importer(name)
    except ImportError as error:
        raise ConfigError(
            f"{setting} is set, but the package {name} cannot be imported ({error}); "
            "install it with: pip install 'training-sandbox[trackers]'"
        ) from error


def _opened(name: str, open_it: Callable[[], Tracker]) -> Tracker:
    try:
        return open_it()
    except Exception as error:
        raise TrainerError(f"cannot open tracker {name}: {error}") from error


def _kept(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings by dotted keys, without what may be a secret: a service shows them to others."""
    return {name: without_secrets(name, value) for name, value in flat_settings(settings)}
