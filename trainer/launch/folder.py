"""A run's folder: everything that a run leaves behind, and everything that it resumes from."""

from __future__ import annotations

import contextlib
import json
import shutil
from typing import TYPE_CHECKING, Any

from trainer.config import RunConfig
from trainer.errors import ConfigError

from .claim import is_claimed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["RunFolder"]

_CONFIG = "run.json"
_FREE = frozenset(
    {"tracking", "ray", "service", "steps", "evaluation", "checkpoint", "root", "rollout", "engine"}
    | {"learner.workers", "learner.cpus", "learner.max_failures", "learner.batch_timeout_s"}
    | {"sync.timeout_s", "sync.checksum_every", "warm_start.timeout_s", "warm_start.concurrency"}
)
"""What may change when a run goes on: settings, and whole branches."""
_KEPT = frozenset({"evaluation.splits", "evaluation.limit"})
"""What may not, although its branch may: held-out tasks are listed once, and evaluations comparable."""


class RunFolder:
    """The paths in a run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def checkpoints(self) -> Path:
        """Ray Train's folder."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """A line of JSON a step."""
        return self.path / "metrics.jsonl"

    @property
    def evaluations(self) -> Path:
        """A line of JSON an evaluation."""
        return self.path / "evaluations.jsonl"

    @property
    def model(self) -> Path:
        """The trained model, in Hugging Face's format."""
        return self.path / "model"

    @property
    def report(self) -> Path:
        """The page with plots and trajectories."""
        return self.path / "report.html"

    @property
    def logs(self) -> Path:
        """What processes of the run wrote."""
        return self.path / "logs"

    @classmethod
    def open(cls, config: RunConfig, *, resume: bool) -> RunFolder:
        """A new folder, or the one of a run that is to go on. Raises ConfigError."""
        folder = cls(config.folder)
        there = folder.path / _CONFIG
        if there.exists() and not resume:
            raise ConfigError(
                f"there is a run in {folder.path}; go on with it by --resume, replace it by --force, "
                "or choose another name=..."
            )
        if resume and not there.exists():
            raise ConfigError(f"there is no run to resume in {folder.path}")
        if resume:
            folder._check(config, RunConfig.model_validate_json(there.read_text(encoding="utf-8")))
            _refuse_claimed(folder.path)
        # Trajectories, tasks and weights are nothing for other users, agents' user ids among them.
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not resume:
            folder.path.chmod(0o700)
        folder.logs.mkdir(exist_ok=True)
        there.write_text(json.dumps(config.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8")
        return folder

    @staticmethod
    def remove(config: RunConfig) -> None:
        """Forget a run. Raises ConfigError when the folder is not one of a run."""
        if not config.folder.exists():
            return
        if not (config.folder / _CONFIG).exists():
            raise ConfigError(f"{config.folder} holds no run; remove it yourself")
        _refuse_claimed(config.folder)
        shutil.rmtree(config.folder)

    @staticmethod
    def config_of(path: Path) -> RunConfig:
        """The configuration of the run in a folder. Raises ConfigError."""
        try:
            return RunConfig.model_validate_json((path / _CONFIG).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} holds no run: {error}") from error

    def _check(self, config: RunConfig, before: RunConfig) -> None:
        """What decides about weights and tokens has to stay as it was."""
        now, then = (dict(_settings(each.model_dump(mode="json"))) for each in (config, before))
        changed = sorted(
            name
            for name in now.keys() | then.keys()
            if not _may_change(name) and now.get(name) != then.get(name)
        )
        if changed:
            raise ConfigError(
                f"a run that goes on keeps its settings; changed are: {', '.join(changed)}. "
                "Start another run under another name=..."
            )


def _refuse_claimed(folder: Path) -> None:
    with contextlib.suppress(OSError):  # a file system without locks cannot tell
        if is_claimed(folder):
            raise ConfigError(f"the run in {folder} is going on; end it first, or choose another name=...")


def _settings(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """All leaves by their dotted names."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _may_change(name: str) -> bool:
    return name not in _KEPT and (name in _FREE or name.partition(".")[0] in _FREE)
