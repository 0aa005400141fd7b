"""Log to MLflow through its client only: no global state, any tracking address, files included."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

_BATCH = 500
"""Metrics or parameters per call: the service takes 1000 and 100."""
_PARAMETERS = 100
_LONGEST = 500
"""Characters of a parameter that every MLflow version keeps."""


class MlflowTracker:
    """One run of an experiment; its id is kept in the run's folder."""

    def __init__(
        self,
        mlflow: ModuleType,
        uri: str,
        experiment: str,
        name: str,
        folder: Path,
        settings: Mapping[str, object],
    ) -> None:
        self._entities: Any = mlflow.entities
        self._client: Any = mlflow.MlflowClient(tracking_uri=uri)
        self._open = True
        file = folder / "mlflow_run"
        if file.exists():
            self._run_id = file.read_text(encoding="utf-8").strip()
            self._client.set_terminated(self._run_id, status="RUNNING")
            return
        self._run_id = self._client.create_run(self._experiment(experiment), run_name=name).info.run_id
        file.write_text(f"{self._run_id}\n", encoding="utf-8")
        self._describe(settings)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        logged = [
            self._entities.Metric(name, value, now, step)
            for name, value in metrics.items()
            if math.isfinite(value)
        ]
        for first in range(0, len(logged), _BATCH):
            self._client.log_batch(self._run_id, metrics=logged[first : first + _BATCH])

    def close(self) -> None:
        if self._open:
            self._open = False
            self._client.set_terminated(self._run_id)

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        made = found.experiment_id if found is not None else self._client.create_experiment(name)
        return str(made)

    def _describe(self, settings: Mapping[str, object]) -> None:
        parameters = [self._entities.Param(name, str(value)[:_LONGEST]) for name, value in settings.items()]
        for first in range(0, len(parameters), _PARAMETERS):
            self._client.log_batch(self._run_id, params=parameters[first : first + _PARAMETERS])
